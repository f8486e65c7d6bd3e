//! Statements of a [community](super::community): profiles, pages, inboxes, feeds and threads.
//!
//! The other lists have numbers as keys. This one finds rows by UUIDs and by both columns of a key, walks trees, and
//! sorts by columns with NULLs.

use super::community_account_list::{COMMUNITY_ACCOUNTS, COMMUNITY_TEXTS};
use super::community_change_list::{COMMUNITY_DELETES, COMMUNITY_INSERTS, COMMUNITY_UPDATES};
use super::draw::Draw::{
    Again, Author, City, Comment, Commented, Conversation, Day, FamousMember, Followee, Follower, Handle, LaterDay,
    Member, Moment, More, Number, OneOf, Participant, Post, Published, Room, SamePost, Slug, Tag, Times,
};
use super::statement::{Statement, read};

const SETTINGS: &[&str] = &["digest", "language", "theme", "zone"];
const PREFIXES: &[&str] = &["abl", "barpr", "es", "oughtese"];

/// The statements, grouped by the part of the application.
pub static COMMUNITY: &[(&str, &[Statement])] = &[
    ("community: points", POINTS),
    ("community: pages", PAGES),
    ("community: inboxes", INBOXES),
    ("community: followers", FOLLOWERS),
    ("community: threads", THREADS),
    ("community: accounts", COMMUNITY_ACCOUNTS),
    ("community: texts", COMMUNITY_TEXTS),
    ("community: inserts", COMMUNITY_INSERTS),
    ("community: updates", COMMUNITY_UPDATES),
    ("community: deletes", COMMUNITY_DELETES),
];

/// Rows by UUIDs, by keys of two columns, and by truth values and NULLs.
const POINTS: &[Statement] = &[
    read("member by id", "SELECT id, handle, email, is_active, reputation FROM members WHERE id = ?", &[Member]),
    read("member by handle, all columns", "SELECT * FROM members WHERE handle = ?", &[Handle]),
    read(
        "active member by handle",
        "SELECT id, reputation FROM members WHERE handle = ? AND is_active AND last_seen IS NOT NULL",
        &[Handle],
    ),
    read(
        "members of a list of ids",
        "SELECT id, handle, is_active FROM members WHERE id IN (?*20)",
        &[Times(20, &Member)],
    ),
    read(
        "does follow",
        "SELECT since, is_muted FROM follows WHERE follower = ? AND followee = ?",
        &[Follower, Followee],
    ),
    read(
        "does follow, as a truth value",
        "SELECT EXISTS (SELECT 1 FROM follows WHERE follower = ? AND followee = ? AND NOT is_muted)",
        &[Follower, Followee],
    ),
    read(
        "do both follow",
        "SELECT count(*) FROM follows WHERE (follower = ? AND followee = ?) OR (follower = ? AND followee = ?)",
        &[Follower, Followee, Again(1), Again(0)],
    ),
    read(
        "follows by pairs",
        "SELECT follower, followee, since FROM follows WHERE (follower, followee) IN ((?, ?), (?, ?), (?, ?))",
        &[Follower, Followee, Follower, Followee, Follower, Followee],
    ),
    read(
        "messages by pairs",
        "SELECT conversation, number, body FROM messages WHERE (conversation, number) IN ((?, 1), (?, 2), (?, 1))",
        &[Conversation, Conversation, Conversation],
    ),
    read("settings of a member", "SELECT name, value FROM settings WHERE member = ? ORDER BY name", &[Member]),
    read(
        "settings by names",
        "SELECT name, value FROM settings WHERE member = ? AND name IN ('theme', 'zone')",
        &[Member],
    ),
    read(
        "a setting or its default",
        "SELECT coalesce((SELECT value FROM settings WHERE member = ? AND name = ?), 'none')",
        &[Member, OneOf(SETTINGS)],
    ),
    read(
        "inviter of a member",
        "SELECT m.handle, i.handle, i.is_active FROM members m LEFT JOIN members i ON i.id = m.inviter WHERE m.handle \
        = ?",
        &[Handle],
    ),
    read("invited members", "SELECT id, handle FROM members WHERE inviter = ? ORDER BY joined", &[Member]),
    read(
        "not invited, of a list",
        "SELECT id, handle FROM members WHERE inviter IS NULL AND id IN (?*5)",
        &[Times(5, &Member)],
    ),
    read(
        "drafts of an author",
        "SELECT id, title FROM posts WHERE author = ? AND published IS NULL ORDER BY id",
        &[Author],
    ),
    read(
        "published of an author",
        "SELECT id, title, published FROM posts WHERE author = ? AND published IS NOT NULL ORDER BY published DESC",
        &[Author],
    ),
    read("number of unread notices", "SELECT count(*) FROM notices WHERE member = ? AND read_at IS NULL", &[Member]),
    read(
        "latest unread notices",
        "SELECT id, kind, sent FROM notices WHERE member = ? AND read_at IS NULL ORDER BY sent DESC LIMIT 10",
        &[Member],
    ),
    read(
        "unread notices of a famous member",
        "SELECT count(*) FROM notices WHERE member = ? AND read_at IS NULL",
        &[FamousMember],
    ),
    read(
        "latest unread of a famous member",
        "SELECT id, kind, sent FROM notices WHERE member = ? AND read_at IS NULL ORDER BY sent DESC LIMIT 10",
        &[FamousMember],
    ),
    read(
        "latest notices of a famous member",
        "SELECT id, kind, read_at FROM notices WHERE member = ? AND read_at < ? ORDER BY read_at DESC, sent DESC, id \
        LIMIT 10",
        &[FamousMember, Moment(86_400)],
    ),
    read(
        "latest read notices",
        "SELECT id, kind, read_at FROM notices WHERE member = ? AND read_at IS NOT NULL ORDER BY read_at DESC, id \
        LIMIT 5",
        &[Member],
    ),
    read(
        "post by slug with its author",
        "SELECT p.id, p.title, p.likes, m.handle FROM posts p JOIN members m ON m.id = p.author WHERE p.slug = ?",
        &[Slug],
    ),
    read(
        "parts of a document",
        "SELECT handle, profile ->> 'city', profile ->> 'level' FROM members WHERE id = ?",
        &[Member],
    ),
    read(
        "condition on a document",
        "SELECT id, title FROM posts WHERE author = ? AND meta ->> 'lang' = 'de'",
        &[Author],
    ),
    read(
        "worst inactive members",
        "SELECT id, handle, reputation FROM members WHERE is_active = false ORDER BY reputation, id LIMIT 10",
        &[],
    ),
    read(
        "inactive members above",
        "SELECT id, reputation FROM members WHERE NOT is_active AND reputation >= ? ORDER BY reputation, id LIMIT 5",
        &[Number(1_000, 15_000)],
    ),
    read(
        "number of active members",
        "SELECT count(*) FROM members WHERE is_active AND reputation BETWEEN ? AND ?",
        &[Number(1_000, 15_000), More(200)],
    ),
    read("last number of a conversation", "SELECT max(number) FROM messages WHERE conversation = ?", &[Conversation]),
    read("next number of an account", "SELECT coalesce(max(number), 0) + 1 FROM entries WHERE member = ?", &[Member]),
    read(
        "first free day of a room",
        "SELECT max(to_day) FROM bookings WHERE room = ? AND from_day <= ?",
        &[Room, Day(0)],
    ),
    read(
        "next booking of a room",
        "SELECT min(from_day), count(*) FROM bookings WHERE room = ? AND from_day >= ?",
        &[Room, Day(30)],
    ),
    read(
        "next post by number",
        "SELECT p.id, (SELECT min(x.id) FROM posts x WHERE x.id > p.id) AS next FROM posts p WHERE p.id = ?",
        &[Post],
    ),
    read("members without an inviter", "SELECT count(*) FROM members WHERE inviter IS NULL", &[]),
];

/// Pages by two columns, by offsets and totals, by prefixes, and in orders with NULLs.
const PAGES: &[Statement] = &[
    read(
        "posts after a post",
        "SELECT id, title, published FROM posts WHERE (published, id) > (?, ?) ORDER BY published, id LIMIT 20",
        &[Published, SamePost],
    ),
    read(
        "posts of an author before a post",
        "SELECT id, title, published FROM posts WHERE author = ? AND (published, id) < (?, ?) ORDER BY published \
        DESC, id DESC LIMIT 5",
        &[Author, Published, SamePost],
    ),
    read(
        "members below a reputation",
        "SELECT id, handle, reputation FROM members WHERE is_active AND (reputation, id) < (?, ?) ORDER BY reputation \
        DESC, id DESC LIMIT 20",
        &[Number(1_000, 15_000), Member],
    ),
    read(
        "followers after a pair",
        "SELECT follower, since FROM follows WHERE followee = ? AND (since > ? OR (since = ? AND follower > ?)) ORDER \
        BY since, follower LIMIT 10",
        &[Member, Moment(0), Again(1), Member],
    ),
    read(
        "pairs after a pair",
        "SELECT follower, followee FROM follows WHERE (follower, followee) > (?, ?) ORDER BY follower, followee LIMIT \
        20",
        &[Follower, Followee],
    ),
    read(
        "pairs before a pair",
        "SELECT follower, followee FROM follows WHERE (follower, followee) < (?, ?) ORDER BY follower DESC, followee \
        DESC LIMIT 20",
        &[Follower, Followee],
    ),
    read(
        "messages before a number",
        "SELECT number, sender, body FROM messages WHERE conversation = ? AND number < ? ORDER BY number DESC LIMIT 10",
        &[Conversation, Number(2, 20)],
    ),
    read(
        "posts of an author with a total",
        "SELECT id, title, count(*) OVER () AS total FROM posts WHERE author = ? ORDER BY published DESC NULLS LAST, \
        id DESC LIMIT 3 OFFSET 1",
        &[Author],
    ),
    read(
        "open rooms with a total",
        "SELECT id, name, price, count(*) OVER () AS total FROM rooms WHERE city = ? AND is_open ORDER BY price, id \
        LIMIT 10 OFFSET 10",
        &[City],
    ),
    read(
        "pinned posts first",
        "SELECT id, title FROM posts WHERE author = ? ORDER BY is_pinned DESC, published DESC NULLS LAST, id LIMIT 5",
        &[Author],
    ),
    read("seen last", "SELECT id, handle FROM members ORDER BY last_seen DESC NULLS LAST, id LIMIT 20", &[]),
    read("seen first", "SELECT id, handle, last_seen FROM members ORDER BY last_seen NULLS LAST, id LIMIT 20", &[]),
    read(
        "never seen first",
        "SELECT id, handle, last_seen FROM members ORDER BY last_seen NULLS FIRST, id LIMIT 20",
        &[],
    ),
    read(
        "seen before a moment",
        "SELECT id, last_seen FROM members WHERE last_seen < ? AND is_active ORDER BY last_seen DESC LIMIT 10",
        &[Moment(86_400)],
    ),
    read(
        "newest posts, drafts last",
        "SELECT id, title FROM posts ORDER BY published DESC NULLS LAST, id DESC LIMIT 20",
        &[],
    ),
    read("bookings by day and room", "SELECT id, room FROM bookings ORDER BY from_day, room, id LIMIT 10", &[]),
    read(
        "notices after a member",
        "SELECT id, member, sent FROM notices WHERE member > ? ORDER BY member, sent, id LIMIT 10",
        &[Member],
    ),
    read(
        "liked posts, unknown last",
        "SELECT id, likes FROM posts WHERE author = ? ORDER BY likes DESC NULLS LAST, id LIMIT 5",
        &[Author],
    ),
    read(
        "handles with a prefix",
        "SELECT id, handle FROM members WHERE handle LIKE ? || '%' ORDER BY handle LIMIT 10",
        &[OneOf(PREFIXES)],
    ),
    read(
        "handles with a prefix, active",
        "SELECT id, handle FROM members WHERE handle LIKE 'barpri%' AND is_active ORDER BY handle LIMIT 10",
        &[],
    ),
    read(
        "tags with a prefix",
        "SELECT name, uses FROM tags WHERE name LIKE ? ORDER BY uses DESC, name LIMIT 5",
        &[OneOf(&["b%", "cy%", "h%"])],
    ),
    read(
        "posts of a tag",
        "SELECT p.id, p.title FROM post_tags t JOIN posts p ON p.id = t.post WHERE t.tag = ? ORDER BY t.post DESC \
        LIMIT 20",
        &[Tag],
    ),
    read(
        "posts of a tag below a number",
        "SELECT p.id, p.title, p.published FROM post_tags t JOIN posts p ON p.id = t.post WHERE t.tag = ? AND t.post \
        < ? ORDER BY t.post DESC LIMIT 20",
        &[Tag, Post],
    ),
    read(
        "posts of a tag by moment",
        "SELECT p.id, p.title FROM post_tags t JOIN posts p ON p.id = t.post WHERE t.tag = ? AND p.published IS NOT \
        NULL ORDER BY p.published DESC LIMIT 20",
        &[Tag],
    ),
    read(
        "posts of a tag by offset",
        "SELECT post FROM post_tags WHERE tag = ? ORDER BY post LIMIT 10 OFFSET ?",
        &[Tag, Number(0, 500)],
    ),
    read(
        "rooms of a city",
        "SELECT id, name, price FROM rooms WHERE city = ? AND seats BETWEEN ? AND ? AND is_open ORDER BY seats, \
        price, id LIMIT 10",
        &[City, Number(5, 40), More(15)],
    ),
    read(
        "bookings between days",
        "SELECT id, room, from_day FROM bookings WHERE from_day BETWEEN ? AND ? ORDER BY from_day, id LIMIT 50",
        &[Day(3), LaterDay(2)],
    ),
    read(
        "bookings of a day",
        "SELECT count(*), sum(price) FROM bookings WHERE from_day = ? AND status = 'paid'",
        &[Day(0)],
    ),
    read(
        "bookings of a member from a day",
        "SELECT id, room, from_day, to_day FROM bookings WHERE member = ? AND to_day >= ? ORDER BY from_day, id",
        &[Member, Day(100)],
    ),
];

/// Conversations with their latest and unread messages.
const INBOXES: &[Statement] = &[
    read(
        "latest message",
        "SELECT number, sender, body, sent FROM messages WHERE conversation = ? ORDER BY number DESC LIMIT 1",
        &[Conversation],
    ),
    read(
        "inbox by a greatest number",
        "SELECT p.conversation, m.number, m.body FROM participants p JOIN messages m ON m.conversation = \
        p.conversation AND m.number = (SELECT max(x.number) FROM messages x WHERE x.conversation = p.conversation) \
        WHERE p.member = ? ORDER BY m.sent DESC, p.conversation LIMIT 20",
        &[Participant],
    ),
    read(
        "inbox by numbered rows",
        "SELECT conversation, body FROM (SELECT m.conversation, m.body, row_number() OVER (PARTITION BY \
        m.conversation ORDER BY m.number DESC) AS n FROM participants p JOIN messages m ON m.conversation = \
        p.conversation WHERE p.member = ?) AS numbered WHERE n = 1",
        &[Participant],
    ),
    read(
        "inbox by two subqueries",
        "SELECT p.conversation, (SELECT m.body FROM messages m WHERE m.conversation = p.conversation ORDER BY \
        m.number DESC LIMIT 1) AS latest, (SELECT count(*) FROM messages m WHERE m.conversation = p.conversation AND \
        m.number > p.last_read AND m.sender <> p.member) AS unread FROM participants p WHERE p.member = ? ORDER BY \
        p.conversation",
        &[Participant],
    ),
    read(
        "inbox by a group",
        "SELECT p.conversation, max(m.sent) AS latest, count(*) FILTER (WHERE m.number > p.last_read) AS unread FROM \
        participants p JOIN messages m ON m.conversation = p.conversation WHERE p.member = ? GROUP BY p.conversation \
        ORDER BY latest DESC, p.conversation",
        &[Participant],
    ),
    read(
        "inbox by two columns of a message",
        "SELECT p.conversation, (SELECT m.body FROM messages m WHERE m.conversation = p.conversation ORDER BY \
        m.number DESC LIMIT 1), (SELECT m.sent FROM messages m WHERE m.conversation = p.conversation ORDER BY \
        m.number DESC LIMIT 1) FROM participants p WHERE p.member = ?",
        &[Participant],
    ),
    read(
        "inbox by pairs",
        "SELECT conversation, body FROM messages WHERE (conversation, number) IN (SELECT m.conversation, \
        max(m.number) FROM participants p JOIN messages m ON m.conversation = p.conversation WHERE p.member = ? GROUP \
        BY m.conversation)",
        &[Participant],
    ),
    read(
        "unread of each, by a subquery",
        "SELECT p.conversation, (SELECT count(*) FROM messages m WHERE m.conversation = p.conversation AND m.number > \
        p.last_read) AS unread FROM participants p WHERE p.member = ?",
        &[Participant],
    ),
    read(
        "marked as unread",
        "SELECT p.conversation, EXISTS (SELECT 1 FROM messages m WHERE m.conversation = p.conversation AND m.number > \
        p.last_read) AS is_unread FROM participants p WHERE p.member = ?",
        &[Participant],
    ),
    read(
        "inbox with the newest first",
        "SELECT conversation, latest FROM (SELECT p.conversation, (SELECT max(m.sent) FROM messages m WHERE \
        m.conversation = p.conversation) AS latest FROM participants p WHERE p.member = ? AND NOT p.is_muted) AS \
        inbox WHERE latest >= ? ORDER BY latest DESC, conversation LIMIT 10",
        &[Participant, Moment(200 * 86_400)],
    ),
    read(
        "unread of each conversation",
        "SELECT p.conversation, count(*) FROM participants p JOIN messages m ON m.conversation = p.conversation AND \
        m.number > p.last_read WHERE p.member = ? GROUP BY p.conversation",
        &[Participant],
    ),
    read(
        "unread, also without any",
        "SELECT p.conversation, count(m.number) FROM participants p LEFT JOIN messages m ON m.conversation = \
        p.conversation AND m.number > p.last_read WHERE p.member = ? GROUP BY p.conversation ORDER BY p.conversation",
        &[Participant],
    ),
    read(
        "number of unread messages",
        "SELECT count(*) FROM participants p JOIN messages m ON m.conversation = p.conversation WHERE p.member = ? \
        AND NOT p.is_muted AND m.number > p.last_read AND m.sender <> p.member",
        &[Participant],
    ),
    read(
        "any unread message",
        "SELECT EXISTS (SELECT 1 FROM participants p JOIN messages m ON m.conversation = p.conversation AND m.number \
        > p.last_read WHERE p.member = ?)",
        &[Participant],
    ),
    read(
        "conversations of two members",
        "SELECT a.conversation FROM participants a JOIN participants b ON b.conversation = a.conversation WHERE \
        a.member = ? AND b.member = ? ORDER BY a.conversation",
        &[Participant, Participant],
    ),
    read(
        "conversations of two, by a group",
        "SELECT conversation FROM participants WHERE member IN (?, ?) GROUP BY conversation HAVING count(*) = 2 ORDER \
        BY conversation",
        &[Participant, Participant],
    ),
    read(
        "conversations of just two",
        "SELECT p.conversation FROM participants p WHERE p.member = ? AND (SELECT count(*) FROM participants x WHERE \
        x.conversation = p.conversation) = 2 ORDER BY p.conversation",
        &[Participant],
    ),
    read(
        "other participants",
        "SELECT o.conversation, m.handle FROM participants p JOIN participants o ON o.conversation = p.conversation \
        AND o.member <> p.member JOIN members m ON m.id = o.member WHERE p.member = ? ORDER BY o.conversation, \
        m.handle",
        &[Participant],
    ),
    read(
        "messages with their senders",
        "SELECT m.number, s.handle, m.body FROM messages m LEFT JOIN members s ON s.id = m.sender WHERE \
        m.conversation = ? ORDER BY m.number DESC LIMIT 10",
        &[Conversation],
    ),
    read(
        "first messages of the newest conversations",
        "SELECT conversation, body FROM messages WHERE conversation IN (SELECT conversation FROM participants WHERE \
        member = ? ORDER BY conversation DESC LIMIT 2) AND number = 1",
        &[Participant],
    ),
    read(
        "messages of each sender",
        "SELECT sender, count(*), min(sent), max(number) FROM messages WHERE conversation = ? GROUP BY sender ORDER \
        BY 2 DESC, sender",
        &[Conversation],
    ),
    read(
        "has anyone else written",
        "SELECT count(DISTINCT sender) > 1 FROM messages WHERE conversation = ?",
        &[Conversation],
    ),
    read(
        "unanswered conversations",
        "SELECT p.conversation FROM participants p WHERE p.member = ? AND NOT EXISTS (SELECT 1 FROM messages m WHERE \
        m.conversation = p.conversation AND m.sender = p.member)",
        &[Participant],
    ),
    read(
        "sent, with the next message",
        "SELECT m.conversation, m.number, (SELECT x.sender FROM messages x WHERE x.conversation = m.conversation AND \
        x.number > m.number ORDER BY x.number LIMIT 1) AS answered FROM messages m WHERE m.sender = ? ORDER BY m.sent \
        DESC, m.conversation LIMIT 5",
        &[Participant],
    ),
    read(
        "notices with their posts",
        "SELECT n.id, n.kind, p.title FROM notices n LEFT JOIN posts p ON p.id = n.post WHERE n.member = ? AND \
        n.read_at IS NULL ORDER BY n.sent DESC LIMIT 20",
        &[Member],
    ),
    read(
        "unread notices of each kind",
        "SELECT kind, count(*), max(sent) FROM notices WHERE member = ? AND read_at IS NULL GROUP BY kind ORDER BY \
        kind",
        &[Member],
    ),
];

/// Feeds and relations of members.
const FOLLOWERS: &[Statement] = &[
    read(
        "feed of a member",
        "SELECT p.id, p.title, p.published FROM follows f JOIN posts p ON p.author = f.followee WHERE f.follower = ? \
        AND p.published IS NOT NULL ORDER BY p.published DESC LIMIT 20",
        &[Follower],
    ),
    read(
        "feed before a moment",
        "SELECT id, title, published FROM posts WHERE author IN (SELECT followee FROM follows WHERE follower = ? AND \
        NOT is_muted) AND published < ? ORDER BY published DESC LIMIT 20",
        &[Follower, Moment(30 * 86_400)],
    ),
    read(
        "feed with authors and comments",
        "SELECT p.id, p.title, m.handle, (SELECT count(*) FROM comments c WHERE c.post = p.id) AS comments FROM \
        follows f JOIN posts p ON p.author = f.followee JOIN members m ON m.id = p.author WHERE f.follower = ? AND \
        p.published >= ? ORDER BY p.published DESC LIMIT 10",
        &[Follower, Moment(200 * 86_400)],
    ),
    read(
        "feed of posts and comments",
        "SELECT 'post' AS kind, id, published AS at FROM posts WHERE author = ? AND published IS NOT NULL UNION ALL \
        SELECT 'comment', id, posted FROM comments WHERE author = ? AND NOT is_deleted ORDER BY at DESC LIMIT 10",
        &[Author, Again(0)],
    ),
    read(
        "feed of limited parts",
        "SELECT kind, id FROM (SELECT 'post' AS kind, id FROM posts WHERE author = ? ORDER BY id DESC LIMIT 3) AS p \
        UNION ALL SELECT kind, id FROM (SELECT kind, id FROM notices WHERE member = ? ORDER BY id DESC LIMIT 3) AS n",
        &[Author, Again(0)],
    ),
    read(
        "followers and followees",
        "SELECT (SELECT count(*) FROM follows WHERE followee = ?), (SELECT count(*) FROM follows WHERE follower = ?), \
        (SELECT count(*) FROM posts WHERE author = ? AND published IS NOT NULL)",
        &[Follower, Again(0), Again(0)],
    ),
    read(
        "newest followers",
        "SELECT f.follower, m.handle, f.since FROM follows f JOIN members m ON m.id = f.follower WHERE f.followee = ? \
        ORDER BY f.since DESC, f.follower LIMIT 10",
        &[Member],
    ),
    read(
        "mutual follows",
        "SELECT m.id, m.handle FROM follows a JOIN follows b ON b.follower = a.followee AND b.followee = a.follower \
        JOIN members m ON m.id = a.followee WHERE a.follower = ? ORDER BY m.handle",
        &[Follower],
    ),
    read(
        "follows without an answer",
        "SELECT a.followee FROM follows a LEFT JOIN follows b ON b.follower = a.followee AND b.followee = a.follower \
        WHERE a.follower = ? AND b.follower IS NULL ORDER BY a.followee",
        &[Follower],
    ),
    read(
        "common followees",
        "SELECT followee FROM follows WHERE follower = ? INTERSECT SELECT followee FROM follows WHERE follower = ?",
        &[Follower, Followee],
    ),
    read(
        "followees of followees",
        "SELECT DISTINCT b.followee FROM follows a JOIN follows b ON b.follower = a.followee WHERE a.follower = ? AND \
        b.followee <> a.follower AND NOT EXISTS (SELECT 1 FROM follows c WHERE c.follower = a.follower AND c.followee \
        = b.followee) ORDER BY b.followee",
        &[Follower],
    ),
    read(
        "members to follow",
        "SELECT b.followee, count(*) AS n FROM follows a JOIN follows b ON b.follower = a.followee WHERE a.follower = \
        ? GROUP BY b.followee ORDER BY n DESC, b.followee LIMIT 5",
        &[Follower],
    ),
    read(
        "not followed, of a list",
        "SELECT m.id FROM members m LEFT JOIN follows f ON f.followee = m.id AND f.follower = ? WHERE m.id IN (?*10) \
        AND f.follower IS NULL ORDER BY m.id",
        &[Follower, Times(10, &Member)],
    ),
    read(
        "marked as followed",
        "SELECT m.id, m.handle, EXISTS (SELECT 1 FROM follows f WHERE f.follower = ? AND f.followee = m.id) AS \
        is_followed FROM members m WHERE m.id IN (?*10) ORDER BY m.handle",
        &[Follower, Times(10, &Member)],
    ),
    read(
        "active followees without posts",
        "SELECT f.followee FROM follows f JOIN members m ON m.id = f.followee AND m.is_active WHERE f.follower = ? \
        AND f.followee NOT IN (SELECT author FROM posts WHERE published >= ?) ORDER BY f.followee",
        &[Follower, Moment(30 * 86_400)],
    ),
    read(
        "who follows the author",
        "SELECT m.handle FROM posts p JOIN follows f ON f.followee = p.author JOIN members m ON m.id = f.follower \
        WHERE p.id = ? ORDER BY m.handle",
        &[Post],
    ),
    read(
        "members with a setting",
        "SELECT member FROM settings WHERE name = ? AND value = ? ORDER BY member LIMIT 20",
        &[OneOf(&["theme"]), OneOf(&["dark", "light"])],
    ),
    read(
        "members with two settings",
        "SELECT a.member FROM settings a JOIN settings b ON b.member = a.member WHERE a.name = 'theme' AND a.value = \
        'dark' AND b.name = 'zone' AND b.value = 'UTC' AND a.member > ? ORDER BY a.member LIMIT 10",
        &[Member],
    ),
    read(
        "settings as columns",
        "SELECT member, max(CASE WHEN name = 'theme' THEN value END) AS theme, max(CASE WHEN name = 'zone' THEN value \
        END) AS zone FROM settings WHERE member IN (?*5) GROUP BY member ORDER BY member",
        &[Times(5, &Member)],
    ),
    read(
        "settings by left joins",
        "SELECT m.handle, coalesce(t.value, 'light'), coalesce(z.value, 'UTC') FROM members m LEFT JOIN settings t ON \
        t.member = m.id AND t.name = 'theme' LEFT JOIN settings z ON z.member = m.id AND z.name = 'zone' WHERE m.id = \
        ?",
        &[Member],
    ),
    read(
        "chain of inviters",
        "WITH RECURSIVE up(id, handle, inviter, depth) AS (SELECT id, handle, inviter, 0 FROM members WHERE id = ? \
        UNION ALL SELECT m.id, m.handle, m.inviter, up.depth + 1 FROM up JOIN members m ON m.id = up.inviter WHERE \
        up.depth < 20) SELECT handle, depth FROM up ORDER BY depth",
        &[Member],
    ),
    read(
        "invited in two steps",
        "WITH RECURSIVE down(id, depth) AS (SELECT id, 1 FROM members WHERE inviter = ? UNION ALL SELECT m.id, \
        d.depth + 1 FROM down d JOIN members m ON m.inviter = d.id WHERE d.depth < 2) SELECT depth, count(*) FROM \
        down GROUP BY depth ORDER BY depth",
        &[Member],
    ),
];

/// Trees of comments, and the tags of posts.
const THREADS: &[Statement] = &[
    read(
        "thread of a post",
        "WITH RECURSIVE thread(id, parent, depth) AS (SELECT id, parent, 0 FROM comments WHERE post = ? AND parent IS \
        NULL UNION ALL SELECT c.id, c.parent, t.depth + 1 FROM thread t JOIN comments c ON c.parent = t.id) SELECT \
        id, parent, depth FROM thread ORDER BY id",
        &[Commented],
    ),
    read(
        "thread with paths",
        "WITH RECURSIVE thread(id, path) AS (SELECT id, CAST(id AS TEXT) FROM comments WHERE post = ? AND parent IS \
        NULL UNION ALL SELECT c.id, t.path || '/' || CAST(c.id AS TEXT) FROM comments c JOIN thread t ON t.id = \
        c.parent) SELECT t.id, t.path, m.handle FROM thread t JOIN comments c ON c.id = t.id JOIN members m ON m.id = \
        c.author ORDER BY t.path LIMIT 20",
        &[Commented],
    ),
    read(
        "ancestors of a comment",
        "WITH RECURSIVE up(id, parent) AS (SELECT id, parent FROM comments WHERE id = ? UNION ALL SELECT c.id, \
        c.parent FROM comments c JOIN up ON c.id = up.parent) SELECT id FROM up ORDER BY id",
        &[Comment],
    ),
    read(
        "number of answers below",
        "WITH RECURSIVE down(id) AS (SELECT id FROM comments WHERE parent = ? UNION SELECT c.id FROM down JOIN \
        comments c ON c.parent = down.id) SELECT count(*) FROM down",
        &[Comment],
    ),
    read(
        "is below a comment",
        "WITH RECURSIVE up(id, parent) AS (SELECT id, parent FROM comments WHERE id = ? UNION ALL SELECT c.id, \
        c.parent FROM comments c JOIN up ON c.id = up.parent) SELECT EXISTS (SELECT 1 FROM up WHERE id = ?)",
        &[Comment, Number(1, 1_000)],
    ),
    read(
        "first comments with their answers",
        "SELECT c.id, c.body, (SELECT count(*) FROM comments a WHERE a.parent = c.id AND NOT a.is_deleted) AS answers \
        FROM comments c WHERE c.post = ? AND c.parent IS NULL ORDER BY c.posted",
        &[Commented],
    ),
    read(
        "comments without an answer",
        "SELECT c.id FROM comments c WHERE c.post = ? AND NOT EXISTS (SELECT 1 FROM comments a WHERE a.parent = c.id) \
        ORDER BY c.id",
        &[Commented],
    ),
    read(
        "best answer of each comment",
        "SELECT c.id, a.id, a.score FROM comments c JOIN comments a ON a.id = (SELECT x.id FROM comments x WHERE \
        x.parent = c.id ORDER BY x.score DESC, x.id LIMIT 1) WHERE c.post = ? ORDER BY c.id",
        &[Commented],
    ),
    read(
        "no better answer",
        "SELECT c.id, c.parent FROM comments c WHERE c.post = ? AND c.parent IS NOT NULL AND NOT EXISTS (SELECT 1 \
        FROM comments x WHERE x.parent = c.parent AND x.score > c.score) ORDER BY c.id",
        &[Commented],
    ),
    read(
        "two best of each post",
        "SELECT post, id, score FROM (SELECT post, id, score, row_number() OVER (PARTITION BY post ORDER BY score \
        DESC, id) AS n FROM comments WHERE post IN (?*5)) AS numbered WHERE n <= 2 ORDER BY post, n",
        &[Times(5, &Commented)],
    ),
    read(
        "comments of a slug",
        "SELECT c.id, c.body, m.handle FROM posts p JOIN comments c ON c.post = p.id JOIN members m ON m.id = \
        c.author WHERE p.slug = ? AND NOT c.is_deleted ORDER BY c.posted",
        &[Slug],
    ),
    read(
        "posts that a member has commented",
        "SELECT DISTINCT p.id, p.title FROM comments c JOIN posts p ON p.id = c.post WHERE c.author = ? ORDER BY p.id \
        DESC LIMIT 10",
        &[Member],
    ),
    read(
        "answers to a member",
        "SELECT a.id, a.body, m.handle, p.title FROM comments c JOIN comments a ON a.parent = c.id JOIN members m ON \
        m.id = a.author JOIN posts p ON p.id = a.post WHERE c.author = ? AND a.author <> c.author ORDER BY a.posted \
        DESC LIMIT 10",
        &[Member],
    ),
    read(
        "who has commented and written",
        "SELECT author FROM comments WHERE post = ? UNION SELECT author FROM posts WHERE id = ?",
        &[Commented, Again(0)],
    ),
    read(
        "figures of a thread",
        "SELECT count(*) FILTER (WHERE is_deleted), count(*) FILTER (WHERE NOT is_deleted AND score > 0), sum(CASE \
        WHEN parent IS NULL THEN 1 ELSE 0 END), max(score), count(DISTINCT author) FROM comments WHERE post = ?",
        &[Commented],
    ),
    read(
        "posts with their comments",
        "SELECT p.id, count(c.id) AS n, max(c.posted) FROM posts p LEFT JOIN comments c ON c.post = p.id AND NOT \
        c.is_deleted WHERE p.author = ? GROUP BY p.id ORDER BY n DESC, p.id LIMIT 10",
        &[Author],
    ),
    read(
        "posts without comments",
        "SELECT p.id, p.title FROM posts p LEFT JOIN comments c ON c.post = p.id WHERE p.author = ? AND p.published \
        IS NOT NULL AND c.id IS NULL ORDER BY p.id",
        &[Author],
    ),
    read(
        "posts without tags",
        "SELECT id FROM posts WHERE author = ? AND id NOT IN (SELECT post FROM post_tags) ORDER BY id",
        &[Author],
    ),
    read(
        "posts liked above the average",
        "SELECT id, likes FROM posts p WHERE author = ? AND likes > (SELECT avg(x.likes) FROM posts x WHERE x.author \
        = p.author) ORDER BY likes DESC, id",
        &[Author],
    ),
    read(
        "next and previous of an author",
        "SELECT (SELECT x.slug FROM posts x WHERE x.author = p.author AND x.published > p.published ORDER BY \
        x.published LIMIT 1), (SELECT x.slug FROM posts x WHERE x.author = p.author AND x.published < p.published \
        ORDER BY x.published DESC LIMIT 1) FROM posts p WHERE p.id = ?",
        &[Post],
    ),
    read(
        "posts of both tags",
        "SELECT post FROM post_tags WHERE tag IN (?, ?) GROUP BY post HAVING count(DISTINCT tag) = 2 ORDER BY post \
        DESC LIMIT 20",
        &[Tag, Tag],
    ),
    read(
        "posts of both tags, by a join",
        "SELECT a.post FROM post_tags a JOIN post_tags b ON b.post = a.post WHERE a.tag = ? AND b.tag = ? ORDER BY \
        a.post DESC LIMIT 20",
        &[Tag, Tag],
    ),
    read(
        "posts of one tag and not another",
        "SELECT a.post FROM post_tags a WHERE a.tag = ? AND NOT EXISTS (SELECT 1 FROM post_tags b WHERE b.post = \
        a.post AND b.tag = ?) ORDER BY a.post DESC LIMIT 20",
        &[Tag, Tag],
    ),
    read(
        "similar posts",
        "SELECT b.post, count(*) AS n FROM post_tags a JOIN post_tags b ON b.tag = a.tag AND b.post <> a.post WHERE \
        a.post = ? GROUP BY b.post ORDER BY n DESC, b.post LIMIT 5",
        &[Post],
    ),
    read(
        "tags of posts in one text",
        "SELECT post, string_agg(tag, ',' ORDER BY tag) FROM post_tags WHERE post IN (?*10) GROUP BY post ORDER BY \
        post",
        &[Times(10, &Post)],
    ),
    read(
        "tags of an author",
        "SELECT t.tag, count(*) AS n FROM posts p JOIN post_tags t ON t.post = p.id WHERE p.author = ? GROUP BY t.tag \
        ORDER BY n DESC, t.tag LIMIT 10",
        &[Author],
    ),
    read(
        "most used tags of a post",
        "SELECT g.name, g.uses FROM post_tags t JOIN tags g ON g.name = t.tag WHERE t.post = ? ORDER BY g.uses DESC, \
        g.name",
        &[Post],
    ),
    read(
        "commenters of a tag",
        "SELECT p.id, c.id, m.handle, coalesce(s.value, 'en') FROM post_tags t JOIN posts p ON p.id = t.post JOIN \
        comments c ON c.post = p.id JOIN members m ON m.id = c.author LEFT JOIN settings s ON s.member = m.id AND \
        s.name = 'language' WHERE t.tag = ? AND t.post > ? ORDER BY t.post, c.id LIMIT 10",
        &[Tag, Post],
    ),
    read(
        "comments of a tag",
        "SELECT t.post, c.id FROM post_tags t JOIN comments c ON c.post = t.post WHERE t.tag = ? ORDER BY t.post, \
        c.id LIMIT 10",
        &[Tag],
    ),
    read(
        "tags of active authors",
        "SELECT DISTINCT t.tag FROM members m JOIN posts p ON p.author = m.id JOIN post_tags t ON t.post = p.id WHERE \
        m.handle = ? AND m.is_active AND p.published IS NOT NULL ORDER BY t.tag",
        &[Handle],
    ),
    read(
        "commented by an inactive member",
        "SELECT p.id FROM posts p WHERE p.author = ? AND EXISTS (SELECT 1 FROM comments c WHERE c.post = p.id AND \
        EXISTS (SELECT 1 FROM members m WHERE m.id = c.author AND NOT m.is_active)) ORDER BY p.id",
        &[Author],
    ),
];
