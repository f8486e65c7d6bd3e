//! Changes of the tables of a [community](super::community).

use super::draw::Draw::{
    Again, Author, Booking, BusyMember, Cents, City, Comment, Commented, Conversation, Day, FamousMember, Followee,
    Follower, Fresh, FreshBlock, FreshHandle, FreshUuid, Handle, LaterDay, Member, Moment, More, Notice, OneOf,
    Participant, Post, Room, Slug, Tag, Times,
};
use super::statement::{Statement, change, commit};

const SETTINGS: &[&str] = &["digest", "language", "theme", "zone"];

/// New rows, alone, in batches and from queries, and what happens to those that exist.
pub(super) const COMMUNITY_INSERTS: &[Statement] = &[
    change(
        "follow",
        "INSERT INTO follows (follower, followee, since, is_muted) VALUES (?, ?, ?, false) ON CONFLICT (follower, \
        followee) DO NOTHING",
        &[Follower, Followee, Moment(0)],
    ),
    change(
        "follow another member",
        "INSERT INTO follows (follower, followee, since, is_muted) VALUES (?, ?, ?, false) ON CONFLICT (follower, \
        followee) DO NOTHING",
        &[FreshUuid, Member, Moment(0)],
    ),
    change(
        "follow or unmute",
        "INSERT INTO follows (follower, followee, since, is_muted) VALUES (?, ?, ?, false) ON CONFLICT (follower, \
        followee) DO UPDATE SET is_muted = false, since = excluded.since",
        &[Follower, Followee, Moment(0)],
    ),
    change(
        "setting",
        "INSERT INTO settings (member, name, value) VALUES (?, ?, 'other') ON CONFLICT (member, name) DO UPDATE SET \
        value = excluded.value",
        &[Member, OneOf(SETTINGS)],
    ),
    commit(
        "setting, committed",
        "INSERT INTO settings (member, name, value) VALUES (?, ?, 'other') ON CONFLICT (member, name) DO UPDATE SET \
        value = excluded.value",
        &[Member, OneOf(SETTINGS)],
    ),
    change(
        "five settings",
        "INSERT INTO settings (member, name, value) VALUES (?, 'digest', 'never'), (?, 'language', 'de'), (?, \
        'theme', 'dark'), (?, 'zone', 'UTC'), (?, 'sound', 'off') ON CONFLICT (member, name) DO UPDATE SET value = \
        excluded.value",
        &[Member, Again(0), Again(0), Again(0), Again(0)],
    ),
    change(
        "setting, if it differs",
        "INSERT INTO settings (member, name, value) VALUES (?, ?, 'dark') ON CONFLICT (member, name) DO UPDATE SET \
        value = excluded.value WHERE settings.value <> excluded.value RETURNING name, value",
        &[Member, OneOf(&["theme"])],
    ),
    change(
        "sign up",
        "INSERT INTO members (id, handle, email, joined, is_active, reputation, profile) VALUES (?, ?, NULL, ?, true, \
        0, '{\"city\": \"Riga\", \"level\": 1}') RETURNING id, handle, last_seen, is_active",
        &[FreshUuid, FreshHandle, Moment(0)],
    ),
    change(
        "sign up or in",
        "INSERT INTO members (id, handle, email, joined, last_seen, is_active, reputation) VALUES (?, ?, \
        'in@example.org', ?, ?, true, 0) ON CONFLICT (handle) DO UPDATE SET last_seen = excluded.last_seen, email = \
        coalesce(members.email, excluded.email)",
        &[FreshUuid, Handle, Moment(0), Again(2)],
    ),
    change(
        "message",
        "INSERT INTO messages (conversation, number, sender, body, sent) SELECT ?, coalesce(max(number), 0) + 1, ?, \
        'Hello', ? FROM messages WHERE conversation = ?",
        &[Conversation, Participant, Moment(0), Again(0)],
    ),
    change(
        "message by a subquery",
        "INSERT INTO messages (conversation, number, sender, body, sent) VALUES (?, (SELECT max(number) + 1 FROM \
        messages WHERE conversation = ?), ?, 'Hello', ?) RETURNING number",
        &[Conversation, Again(0), Participant, Moment(0)],
    ),
    change(
        "tags of a post",
        "INSERT INTO post_tags (post, tag) VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?) ON CONFLICT DO NOTHING",
        &[Post, Tag, Again(0), Tag, Again(0), Tag, Again(0), Tag, Again(0), Tag],
    ),
    change(
        "tags of a new post",
        "INSERT INTO post_tags (post, tag) VALUES (?, 'jazz-1'), (?, 'maps-1'), (?, 'wine-1'), (?, 'wine-2'), (?, \
        'wine-3')",
        &[Fresh, Again(0), Again(0), Again(0), Again(0)],
    ),
    change(
        "notices of followers",
        "INSERT INTO notices (id, member, kind, sent, post) SELECT ? + row_number() OVER (ORDER BY follower), \
        follower, 'post', ?, ? FROM follows WHERE followee = ? AND NOT is_muted",
        &[FreshBlock, Moment(0), Post, Member],
    ),
    change(
        "notice of an author",
        "INSERT INTO notices (id, member, kind, sent, post) VALUES (?, (SELECT author FROM posts WHERE id = ?), \
        'like', ?, ?)",
        &[Fresh, Post, Moment(0), Again(1)],
    ),
    change(
        "uses of a post's tags",
        "INSERT INTO tags (name, uses) SELECT tag, count(*) FROM post_tags WHERE post = ? GROUP BY tag ON CONFLICT \
        (name) DO UPDATE SET uses = tags.uses + excluded.uses",
        &[Post],
    ),
    change(
        "twenty notices",
        "INSERT INTO notices (id, member, kind, sent) VALUES (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), \
        (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', \
        ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, \
        'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?), (?, ?, 'like', ?)",
        &[
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
            Fresh,
            Member,
            Moment(0),
        ],
    ),
    commit(
        "notice, committed",
        "INSERT INTO notices (id, member, kind, sent, post) VALUES (?, ?, 'mention', ?, ?)",
        &[Fresh, Member, Moment(0), Post],
    ),
    change(
        "answer to a comment",
        "INSERT INTO comments (id, post, parent, author, body, score, posted, is_deleted) SELECT ?, post, id, ?, 'I \
        agree.', 0, ?, false FROM comments WHERE id = ?",
        &[Fresh, Member, Moment(0), Comment],
    ),
    change(
        "booking of a free room",
        "INSERT INTO bookings (id, room, member, from_day, to_day, status, price) SELECT ?, r.id, ?, ?, ?, 'asked', \
        r.price FROM rooms r WHERE r.id = ? AND r.is_open AND NOT EXISTS (SELECT 1 FROM bookings b WHERE b.room = \
        r.id AND b.from_day < ? AND b.to_day > ?)",
        &[Fresh, Member, Day(3), LaterDay(3), Room, Again(3), Again(2)],
    ),
    change(
        "booking",
        "INSERT INTO bookings (id, room, member, from_day, to_day, status, price) VALUES (?, ?, ?, ?, ?, 'asked', ?) \
        RETURNING id, from_day, price",
        &[Fresh, Room, Member, Day(3), LaterDay(2), Cents(1_000, 90_000)],
    ),
    change(
        "entry with the next number",
        "INSERT INTO entries (member, number, moment, kind, amount) SELECT ?, coalesce(max(number), 0) + 1, ?, \
        'gift', ? FROM entries WHERE member = ?",
        &[Member, Moment(0), Cents(100, 5_000), Again(0)],
    ),
    change(
        "two entries",
        "INSERT INTO entries (member, number, moment, kind, amount) VALUES (?, ?, ?, 'gift', ?), (?, ?, ?, 'gift', ?)",
        &[Member, Fresh, Moment(0), Cents(100, 5_000), Member, Fresh, Moment(0), Cents(100, 5_000)],
    ),
    change(
        "copy of settings",
        "INSERT INTO settings (member, name, value) SELECT ?, name, value FROM settings WHERE member = ? ON CONFLICT \
        (member, name) DO NOTHING",
        &[Member, Member],
    ),
];

/// Counters, marks, moves, and values that come from other tables.
pub(super) const COMMUNITY_UPDATES: &[Statement] = &[
    change("one more view", "UPDATE posts SET views = views + 1 WHERE id = ?", &[Post]),
    commit("one more view, committed", "UPDATE posts SET views = views + 1 WHERE id = ?", &[Post]),
    change("one more like", "UPDATE posts SET likes = coalesce(likes, 0) + 1 WHERE slug = ? RETURNING likes", &[Slug]),
    change("publication", "UPDATE posts SET published = ? WHERE id = ? AND published IS NULL", &[Moment(0), Post]),
    change(
        "seen now",
        "UPDATE members SET last_seen = ?, reputation = reputation + 1 WHERE id = ?",
        &[Moment(0), Member],
    ),
    commit("seen now, committed", "UPDATE members SET last_seen = ? WHERE id = ?", &[Moment(0), Member]),
    change(
        "other truth value",
        "UPDATE members SET is_active = NOT is_active WHERE handle = ? RETURNING is_active",
        &[Handle],
    ),
    change(
        "new document",
        "UPDATE members SET profile = '{\"city\": \"Graz\", \"level\": 2}', bio = NULL WHERE id = ?",
        &[Member],
    ),
    change(
        "all notices read",
        "UPDATE notices SET read_at = ? WHERE member = ? AND read_at IS NULL",
        &[Moment(0), Member],
    ),
    change(
        "notices of a famous member read",
        "UPDATE notices SET read_at = ? WHERE member = ? AND read_at IS NULL",
        &[Moment(0), FamousMember],
    ),
    change(
        "notices of a kind read",
        "UPDATE notices SET read_at = sent WHERE member = ? AND kind = 'reply' AND read_at IS NULL RETURNING id",
        &[Member],
    ),
    change(
        "notices of a number or a kind read",
        "UPDATE notices SET read_at = sent WHERE id = ? OR (member = ? AND kind = 'like')",
        &[Notice, Member],
    ),
    change(
        "conversation read",
        "UPDATE participants SET last_read = (SELECT max(number) FROM messages m WHERE m.conversation = \
        participants.conversation) WHERE conversation = ? AND member = ?",
        &[Conversation, Participant],
    ),
    change(
        "all conversations read",
        "UPDATE participants SET last_read = (SELECT coalesce(max(number), 0) FROM messages m WHERE m.conversation = \
        participants.conversation) WHERE member = ?",
        &[Participant],
    ),
    change(
        "soft delete",
        "UPDATE comments SET is_deleted = true, body = '' WHERE id = ? AND NOT is_deleted",
        &[Comment],
    ),
    change(
        "soft delete of answers",
        "UPDATE comments SET is_deleted = true WHERE parent = ? OR id = ?",
        &[Comment, Again(0)],
    ),
    change(
        "soft delete below",
        "UPDATE comments SET is_deleted = true WHERE id IN (WITH RECURSIVE down(id) AS (SELECT id FROM comments WHERE \
        id = ? UNION ALL SELECT c.id FROM down JOIN comments c ON c.parent = down.id) SELECT id FROM down)",
        &[Comment],
    ),
    change(
        "tags of a post counted",
        "UPDATE tags SET uses = uses + 1 FROM post_tags t WHERE t.tag = tags.name AND t.post = ?",
        &[Post],
    ),
    change(
        "tag counted again",
        "UPDATE tags SET uses = (SELECT count(*) FROM post_tags t WHERE t.tag = tags.name) WHERE name = ?",
        &[Tag],
    ),
    change(
        "likes from counts",
        "UPDATE posts SET likes = c.n FROM (SELECT post, count(*) AS n FROM comments WHERE post IN (?, ?) GROUP BY \
        post) AS c WHERE c.post = posts.id",
        &[Commented, Commented],
    ),
    change(
        "reputation of commenters",
        "UPDATE members SET reputation = reputation + 1 WHERE id IN (SELECT author FROM comments WHERE post = ?)",
        &[Commented],
    ),
    change(
        "cancelled booking",
        "UPDATE bookings SET status = 'cancelled', note = NULL WHERE id = ? AND status IN ('asked', 'paid') RETURNING \
        room, from_day",
        &[Booking],
    ),
    change(
        "later booking",
        "UPDATE bookings SET from_day = ?, to_day = ? WHERE id = ? AND status <> 'cancelled'",
        &[Day(3), LaterDay(3), Booking],
    ),
    change(
        "bookings to another room",
        "UPDATE bookings SET room = ? WHERE room = ? AND from_day >= ? AND status <> 'cancelled'",
        &[Room, Room, Day(90)],
    ),
    change("prices of a city's rooms", "UPDATE rooms SET price = price * 2 WHERE city = ? AND seats > 30", &[City]),
    change(
        "price of the room",
        "UPDATE bookings SET price = r.price FROM rooms r WHERE r.id = bookings.room AND bookings.member = ? AND \
        bookings.status = 'asked'",
        &[Member],
    ),
    change("comments to another post", "UPDATE comments SET post = ? WHERE post = ?", &[Post, Commented]),
    change(
        "other participant",
        "UPDATE participants SET member = ? WHERE conversation = ? AND member = ?",
        &[FreshUuid, Conversation, Participant],
    ),
    change(
        "last read of both",
        "UPDATE participants SET last_read = CASE member WHEN ? THEN 1 ELSE 2 END, is_muted = (member = ?) WHERE \
        conversation = ?",
        &[Participant, Again(0), Conversation],
    ),
    change(
        "other tag",
        "UPDATE post_tags SET tag = tag || '!' WHERE tag = ? AND post BETWEEN ? AND ?",
        &[Tag, Post, More(200)],
    ),
    change(
        "setting of an unknown member",
        "UPDATE settings SET value = 'x' WHERE member = ? AND name = 'theme'",
        &[FreshUuid],
    ),
];

/// Old, double and dependent rows.
pub(super) const COMMUNITY_DELETES: &[Statement] = &[
    change("unfollow", "DELETE FROM follows WHERE follower = ? AND followee = ?", &[Follower, Followee]),
    commit("unfollow, committed", "DELETE FROM follows WHERE follower = ? AND followee = ?", &[Follower, Followee]),
    change("all follows of a member", "DELETE FROM follows WHERE follower = ? OR followee = ?", &[Follower, Again(0)]),
    change(
        "tags that are not listed",
        "DELETE FROM post_tags WHERE post = ? AND tag NOT IN (?*3)",
        &[Post, Times(3, &Tag)],
    ),
    change("old notices", "DELETE FROM notices WHERE member = ? AND read_at < ?", &[Member, Moment(86_400)]),
    change(
        "all but two notices",
        "DELETE FROM notices WHERE member = ? AND id NOT IN (SELECT id FROM notices WHERE member = ? ORDER BY sent \
        DESC LIMIT 2)",
        &[Member, Again(0)],
    ),
    change(
        "tags of drafts",
        "DELETE FROM post_tags WHERE post IN (SELECT id FROM posts WHERE author = ? AND published IS NULL)",
        &[Author],
    ),
    change(
        "drafts without comments",
        "DELETE FROM posts WHERE author = ? AND published IS NULL AND NOT EXISTS (SELECT 1 FROM comments c WHERE \
        c.post = posts.id) RETURNING id, slug",
        &[Author],
    ),
    change(
        "answers below",
        "DELETE FROM comments WHERE id IN (WITH RECURSIVE down(id) AS (SELECT id FROM comments WHERE parent = ? UNION \
        ALL SELECT c.id FROM down JOIN comments c ON c.parent = down.id) SELECT id FROM down)",
        &[Comment],
    ),
    change(
        "conversation without messages",
        "DELETE FROM participants WHERE conversation = ? AND NOT EXISTS (SELECT 1 FROM messages m WHERE \
        m.conversation = participants.conversation AND m.number > 5)",
        &[Conversation],
    ),
    change(
        "messages up to a number",
        "DELETE FROM messages WHERE conversation = ? AND number <= (SELECT min(last_read) FROM participants p WHERE \
        p.conversation = messages.conversation)",
        &[Conversation],
    ),
    change(
        "oldest entries",
        "DELETE FROM entries WHERE member = ? AND number <= 10 RETURNING number, amount",
        &[BusyMember],
    ),
    change(
        "oldest entry",
        "DELETE FROM entries WHERE member = ? AND number = (SELECT min(number) FROM entries x WHERE x.member = \
        entries.member)",
        &[BusyMember],
    ),
    change(
        "muted conversations",
        "DELETE FROM participants WHERE (conversation, member) IN (SELECT conversation, member FROM participants \
        WHERE member = ? AND is_muted)",
        &[Participant],
    ),
    change(
        "cancelled bookings of a room",
        "DELETE FROM bookings WHERE room = ? AND status = 'cancelled' AND to_day < ?",
        &[Room, Day(100)],
    ),
];
