//! The tables of a community and their rows: members who follow each other, posts with tags and trees of comments,
//! conversations with numbered messages, notices, rooms that members book, and an account for each member. Both engines
//! must get the same rows.
//!
//! The [shop](super::shop) has keys that are numbers and few NULLs. Here members have UUIDs, most tables have keys of
//! two columns, indexes begin with truth values or contain NULLs, and columns hold days and JSON.

use rowmill_base::Result;

use super::filled_tables::{RowsOf, fill_table, make_tables};
use super::shop::{FIRST_ORDER_S, FIRST_USER_S, MICROS, YEAR_S, moment};
use crate::tpcc::client::{Engine, Param, RowFn, money};
use crate::tpcc::random::{Random, last_name};
use crate::tpcc::table::{Kind, Table, column, nullable};

const HOUR_S: i64 = 3_600;
/// The number of days on which bookings begin.
const BOOKED_DAYS: i64 = 600;
/// The number of comments of a post that has comments.
const THREAD: i64 = 20;
/// Each member whose number is a multiple of this one has an account with [`BUSY_ENTRIES`] entries.
const BUSY_STEP: i64 = 50;
const BUSY_ENTRIES: i64 = 100;
/// The first members are famous: they get a third of all notices, and have read nearly all of theirs.
const FAMOUS_MEMBERS: i64 = 10;
/// The number of tags.
const TAGS_COUNT: i64 = 200;

const TOPICS: [&str; 20] = [
    "baking", "birds", "boats", "chess", "cinema", "climbing", "cycling", "drawing", "fishing", "garden", "hiking",
    "history", "jazz", "maps", "opera", "pottery", "running", "sewing", "trains", "wine",
];
const CITIES: [&str; 12] =
    ["Bergen", "Bremen", "Genoa", "Ghent", "Graz", "Lyon", "Malmo", "Porto", "Riga", "Seville", "Turin", "Zadar"];
const LANGUAGES: [&str; 4] = ["de", "en", "es", "fr"];
const NOTICE_KINDS: [&str; 4] = ["follow", "like", "mention", "reply"];
const ENTRY_KINDS: [&str; 4] = ["booking", "fee", "gift", "refund"];
/// The names of settings, with the values that each of them has.
const SETTINGS_NAMES: [(&str, [&str; 3]); 4] = [
    ("digest", ["daily", "never", "weekly"]),
    ("language", ["de", "en", "fr"]),
    ("theme", ["dark", "high contrast", "light"]),
    ("zone", ["Europe/Lisbon", "Europe/Riga", "UTC"]),
];

/// The members. Most of them were invited by an earlier member.
static MEMBERS: Table = Table {
    name: "members",
    columns: &[
        column("id", Kind::Uuid),
        column("handle", Kind::Text(30)),
        nullable("email", Kind::Text(60)),
        column("joined", Kind::Timestamp),
        nullable("last_seen", Kind::Timestamp),
        column("is_active", Kind::Boolean),
        column("reputation", Kind::Integer),
        nullable("birthday", Kind::Date),
        nullable("bio", Kind::Text(40)),
        nullable("inviter", Kind::Uuid),
        nullable("profile", Kind::Json(60)),
    ],
    key: &["id"],
    index: None,
};

/// Who follows whom.
static FOLLOWS: Table = Table {
    name: "follows",
    columns: &[
        column("follower", Kind::Uuid),
        column("followee", Kind::Uuid),
        column("since", Kind::Timestamp),
        column("is_muted", Kind::Boolean),
    ],
    key: &["follower", "followee"],
    index: None,
};

/// The posts. A draft has no moment of publication.
static POSTS: Table = Table {
    name: "posts",
    columns: &[
        column("id", Kind::Bigint),
        column("author", Kind::Uuid),
        column("title", Kind::Text(60)),
        column("slug", Kind::Text(40)),
        nullable("published", Kind::Timestamp),
        column("is_pinned", Kind::Boolean),
        column("views", Kind::Integer),
        nullable("likes", Kind::Integer),
        nullable("meta", Kind::Json(60)),
    ],
    key: &["id"],
    index: None,
};

/// The tags.
static TAGS: Table = Table {
    name: "tags",
    columns: &[column("name", Kind::Text(20)), column("uses", Kind::Integer)],
    key: &["name"],
    index: None,
};

/// The tags of posts: none to four each.
static POST_TAGS: Table = Table {
    name: "post_tags",
    columns: &[column("post", Kind::Bigint), column("tag", Kind::Text(20))],
    key: &["post", "tag"],
    index: None,
};

/// The comments. Some posts have a tree of [`THREAD`] comments, the others have none.
static COMMENTS: Table = Table {
    name: "comments",
    columns: &[
        column("id", Kind::Bigint),
        column("post", Kind::Bigint),
        nullable("parent", Kind::Bigint),
        column("author", Kind::Uuid),
        column("body", Kind::Text(60)),
        column("score", Kind::Integer),
        column("posted", Kind::Timestamp),
        column("is_deleted", Kind::Boolean),
    ],
    key: &["id"],
    index: None,
};

/// The participants of conversations: two or three each. Each has read the messages up to a number.
static PARTICIPANTS: Table = Table {
    name: "participants",
    columns: &[
        column("conversation", Kind::Bigint),
        column("member", Kind::Uuid),
        column("last_read", Kind::Integer),
        column("is_muted", Kind::Boolean),
    ],
    key: &["conversation", "member"],
    index: None,
};

/// The messages of conversations, numbered from 1.
static MESSAGES: Table = Table {
    name: "messages",
    columns: &[
        column("conversation", Kind::Bigint),
        column("number", Kind::Integer),
        column("sender", Kind::Uuid),
        column("body", Kind::Text(60)),
        column("sent", Kind::Timestamp),
    ],
    key: &["conversation", "number"],
    index: None,
};

/// What members should know. Most notices are read.
static NOTICES: Table = Table {
    name: "notices",
    columns: &[
        column("id", Kind::Bigint),
        column("member", Kind::Uuid),
        column("kind", Kind::Text(10)),
        column("sent", Kind::Timestamp),
        nullable("read_at", Kind::Timestamp),
        nullable("post", Kind::Bigint),
    ],
    key: &["id"],
    index: None,
};

/// The rooms that members can book.
static ROOMS: Table = Table {
    name: "rooms",
    columns: &[
        column("id", Kind::Bigint),
        column("name", Kind::Text(30)),
        column("city", Kind::Text(20)),
        column("seats", Kind::Integer),
        column("price", Kind::Decimal(8, 2)),
        column("is_open", Kind::Boolean),
    ],
    key: &["id"],
    index: None,
};

/// The bookings of rooms, from one day to another.
static BOOKINGS: Table = Table {
    name: "bookings",
    columns: &[
        column("id", Kind::Bigint),
        column("room", Kind::Bigint),
        column("member", Kind::Uuid),
        column("from_day", Kind::Date),
        column("to_day", Kind::Date),
        column("status", Kind::Text(10)),
        column("price", Kind::Decimal(10, 2)),
        nullable("note", Kind::Text(40)),
    ],
    key: &["id"],
    index: None,
};

/// The entries of the members' accounts, numbered from 1. A few members have many.
static ENTRIES: Table = Table {
    name: "entries",
    columns: &[
        column("member", Kind::Uuid),
        column("number", Kind::Integer),
        column("moment", Kind::Timestamp),
        column("kind", Kind::Text(10)),
        column("amount", Kind::Decimal(12, 2)),
        nullable("booking", Kind::Bigint),
    ],
    key: &["member", "number"],
    index: None,
};

/// The settings of members. A member without a setting has its default.
static SETTINGS: Table = Table {
    name: "settings",
    columns: &[column("member", Kind::Uuid), column("name", Kind::Text(20)), column("value", Kind::Text(30))],
    key: &["member", "name"],
    index: None,
};

/// All tables.
pub static TABLES: [&Table; 13] = [
    &MEMBERS,
    &FOLLOWS,
    &POSTS,
    &TAGS,
    &POST_TAGS,
    &COMMENTS,
    &PARTICIPANTS,
    &MESSAGES,
    &NOTICES,
    &ROOMS,
    &BOOKINGS,
    &ENTRIES,
    &SETTINGS,
];

/// The indexes of both engines.
const INDEXES: [&str; 20] = [
    "CREATE UNIQUE INDEX members_handle ON members (handle)",
    "CREATE INDEX members_active ON members (is_active, reputation)",
    "CREATE INDEX members_seen ON members (last_seen)",
    "CREATE INDEX members_inviter ON members (inviter)",
    "CREATE INDEX follows_followee ON follows (followee, since)",
    "CREATE UNIQUE INDEX posts_slug ON posts (slug)",
    "CREATE INDEX posts_author ON posts (author, published)",
    "CREATE INDEX posts_published ON posts (published, id)",
    "CREATE INDEX post_tags_tag ON post_tags (tag, post)",
    "CREATE INDEX comments_post ON comments (post, posted)",
    "CREATE INDEX comments_parent ON comments (parent)",
    "CREATE INDEX comments_author ON comments (author, posted)",
    "CREATE INDEX participants_member ON participants (member, conversation)",
    "CREATE INDEX messages_sender ON messages (sender, sent)",
    "CREATE INDEX notices_member ON notices (member, read_at, sent)",
    "CREATE INDEX rooms_city ON rooms (city, seats)",
    "CREATE INDEX bookings_room ON bookings (room, from_day)",
    "CREATE INDEX bookings_member ON bookings (member, from_day)",
    "CREATE INDEX bookings_day ON bookings (from_day)",
    "CREATE INDEX settings_name ON settings (name, value)",
];

/// The kinds of things that have random streams of their own. The numbers differ from those of the shop's streams.
#[derive(Clone, Copy)]
enum Stream {
    Uuid = 11,
    Handle,
    Member,
    Follow,
    Post,
    PostFigures,
    PostTags,
    Comment,
    Conversation,
    Messages,
    Notice,
    Room,
    Booking,
    Entry,
    Setting,
}

/// A post.
#[derive(Clone, Debug)]
pub struct Post {
    /// The number of its author.
    pub author: i64,
    title: String,
    /// The part of its address that no other post may have.
    pub slug: String,
    /// Microseconds since 1970. No other post may have the same value.
    pub published: i64,
    is_draft: bool,
}

/// A conversation.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The numbers of its participants.
    pub participants: Vec<i64>,
    messages: i64,
}

/// The sizes of the tables, and the seed of their contents.
#[derive(Clone, Copy, Debug)]
pub struct Community {
    /// The number of members.
    pub members: i64,
    /// The number of posts.
    pub posts: i64,
    /// Another seed makes other rows.
    pub seed: u64,
}

impl Community {
    /// The number of comments.
    pub fn comments(&self) -> i64 {
        THREAD * self.threads()
    }

    /// The number of conversations.
    pub fn conversations(&self) -> i64 {
        (self.members / 2).max(1)
    }

    /// The number of notices.
    pub fn notices(&self) -> i64 {
        self.posts * 3 / 2
    }

    /// The number of rooms.
    pub fn rooms(&self) -> i64 {
        (self.posts / 100).max(10)
    }

    /// The number of bookings.
    pub fn bookings(&self) -> i64 {
        self.posts
    }

    /// The number of posts with comments.
    fn threads(&self) -> i64 {
        (self.posts / 8).max(1)
    }

    /// The approximate number of rows of all tables.
    pub fn rows(&self) -> i64 {
        17 * self.members + 4 * self.posts + self.comments() + self.notices() + self.rooms() + self.bookings()
    }

    fn random(&self, stream: Stream, number: i64) -> Random {
        Random::new(self.seed, (stream as u64) << 56 | number as u64)
    }

    /// Computes the UUID of a member. A greater number than that of every member gives a UUID that no member has.
    pub fn uuid(&self, member: i64) -> String {
        let random = &mut self.random(Stream::Uuid, member);
        let (high, low) = (random.bits(), random.bits());
        // The version is 4, for random UUIDs.
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// Computes the handle of a member.
    pub fn handle(&self, member: i64) -> String {
        let mut handle = String::new();
        last_name(&mut handle, self.random(Stream::Handle, member).between(0, 999));
        handle.make_ascii_lowercase();
        format!("{handle}{member}")
    }

    /// Computes whom a member follows.
    pub fn followees(&self, member: i64) -> impl Iterator<Item = i64> {
        let members = self.members;
        let random = &mut self.random(Stream::Follow, member);
        // The followees alternate on both sides of the member and span less than all members, so they are distinct.
        // Half of the members only follow near ones, who often follow them too.
        let count = random.between(0, (members - 1).min(10));
        let widest = (members - 1) / count.max(1);
        let distance_max = if random.percent(50) { widest } else { widest.min(3) };
        let distance = random.between(1, distance_max);
        (1..=count).map(move |number| {
            let step = (number + 1) / 2 * distance;
            (member - 1 + if number % 2 == 1 { step } else { -step }).rem_euclid(members) + 1
        })
    }

    /// Computes a post.
    pub fn post(&self, id: i64) -> Post {
        let random = &mut self.random(Stream::Post, id);
        let topic = TOPICS[random.between(0, TOPICS.len() as i64 - 1) as usize];
        Post {
            author: random.between(1, self.members).min(random.between(1, self.members)),
            title: format!("Everything about {topic}, part {id}"),
            slug: format!("{topic}-{id}"),
            published: moment(FIRST_ORDER_S, id, self.posts, random),
            is_draft: random.percent(10),
        }
    }

    /// Returns the post of a comment. Comments of one post have successive numbers.
    pub fn post_of(&self, comment: i64) -> i64 {
        // Neighbouring posts do not all have comments. The prime number spreads them.
        (comment - 1) / THREAD * 7_919 % self.posts + 1
    }

    /// Computes a conversation.
    pub fn conversation(&self, id: i64) -> Conversation {
        let random = &mut self.random(Stream::Conversation, id);
        let (first, distance) = (random.between(1, self.members), random.between(1, (self.members / 3).max(1)));
        let count = random.between(2, 3);
        Conversation {
            participants: (0..count).map(|number| (first - 1 + number * distance) % self.members + 1).collect(),
            messages: random.between(1, 20),
        }
    }

    /// Returns the name of a tag.
    pub fn tag(number: i64) -> String {
        let topics = TOPICS.len() as i64;
        format!("{}-{}", TOPICS[(number % topics) as usize], number / topics % (TAGS_COUNT / topics))
    }

    /// Draws a tag. The first tags are the most frequent ones.
    pub fn any_tag(random: &mut Random) -> String {
        Self::tag(random.between(0, TAGS_COUNT - 1).min(random.between(0, TAGS_COUNT - 1)))
    }

    /// Returns the number of a member with a long account.
    pub fn busy_member(&self, random: &mut Random) -> i64 {
        (random.between(1, self.members) / BUSY_STEP * BUSY_STEP).clamp(1, self.members)
    }

    /// Returns the number of a member with many notices.
    pub fn famous_member(&self, random: &mut Random) -> i64 {
        random.between(1, self.members.min(FAMOUS_MEMBERS))
    }

    /// Returns a city that has rooms.
    pub fn city(random: &mut Random) -> &'static str {
        CITIES[random.between(0, CITIES.len() as i64 - 1) as usize]
    }

    /// Draws the number of a day on which bookings begin, with such days during at least `days` days after it.
    pub fn booked_day(random: &mut Random, days: i64) -> i64 {
        random.between(0, BOOKED_DAYS - days)
    }

    /// Returns a day as a text. All months have 28 days here.
    pub fn day(number: i64) -> String {
        format!("{}-{:02}-{:02}", 2_023 + number / 336, number / 28 % 12 + 1, number % 28 + 1)
    }

    /// Makes the tables and fills them. In their types, each first name is replaced by the second one. `under_key` is
    /// the table option with which the engine stores rows under a key that is not a number.
    pub fn load<E: Engine>(
        &self,
        engine: &E,
        types: &[(&str, &str)],
        under_key: &str,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        make_tables(engine, &TABLES, types, under_key)?;
        let fill = |table: &Table, last: i64, rows: &RowsOf<'_>| fill_table(engine, table, last, rows, progress);
        fill(&MEMBERS, self.members, &|id, into| self.member_row(id, into))?;
        fill(&FOLLOWS, self.members, &|id, into| self.follow_rows(id, into))?;
        fill(&POSTS, self.posts, &|id, into| self.post_row(id, into))?;
        fill(&TAGS, TAGS_COUNT, &|id, into| into(&[Self::tag(id - 1).as_str().into(), (id % 7).into()]))?;
        fill(&POST_TAGS, self.posts, &|id, into| self.post_tag_rows(id, into))?;
        fill(&COMMENTS, self.comments(), &|id, into| self.comment_row(id, into))?;
        fill(&PARTICIPANTS, self.conversations(), &|id, into| self.participant_rows(id, into))?;
        fill(&MESSAGES, self.conversations(), &|id, into| self.message_rows(id, into))?;
        fill(&NOTICES, self.notices(), &|id, into| self.notice_row(id, into))?;
        fill(&ROOMS, self.rooms(), &|id, into| self.room_row(id, into))?;
        fill(&BOOKINGS, self.bookings(), &|id, into| self.booking_row(id, into))?;
        fill(&ENTRIES, self.members, &|id, into| self.entry_rows(id, into))?;
        fill(&SETTINGS, self.members, &|id, into| self.setting_rows(id, into))?;
        INDEXES.iter().try_for_each(|index| engine.execute(index))?;
        engine.execute("ANALYZE")?;
        engine.settle()
    }

    fn member_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Member, id);
        let handle = self.handle(id);
        let email = format!("{handle}@example.org");
        let joined = moment(FIRST_USER_S, id, self.members, random);
        let seen = FIRST_ORDER_S * MICROS + random.between(0, YEAR_S) * MICROS + id % MICROS;
        let birthday = format!("{}-{:02}-{:02}", random.between(1940, 2005), id % 12 + 1, id % 28 + 1);
        let bio = format!("I like {}.", TOPICS[random.between(0, TOPICS.len() as i64 - 1) as usize]);
        let inviter = self.uuid(random.between(1, id));
        let (city, level) = (Self::city(random), random.between(1, 9));
        let profile = format!("{{\"city\": \"{city}\", \"level\": {level}}}");
        into(&[
            self.uuid(id).as_str().into(),
            handle.as_str().into(),
            null_if(random.percent(20), email.as_str().into()),
            Param::Moment(joined),
            null_if(random.percent(15), Param::Moment(seen)),
            i64::from(!random.percent(8)).into(),
            random.between(0, 20_000).into(),
            null_if(random.percent(30), birthday.as_str().into()),
            null_if(random.percent(50), bio.as_str().into()),
            null_if(id == 1 || random.percent(40), inviter.as_str().into()),
            null_if(random.percent(40), profile.as_str().into()),
        ])
    }

    fn follow_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let follower = self.uuid(id);
        self.followees(id).try_for_each(|followee| {
            // The prime numbers spread the moments of a member's follows, and those of its followers, over the year.
            let since = Param::Moment((FIRST_ORDER_S + (id * 7_919 + followee * 104_729) % YEAR_S) * MICROS);
            let is_muted = i64::from((id + followee) % 9 == 0);
            into(&[follower.as_str().into(), self.uuid(followee).as_str().into(), since, is_muted.into()])
        })
    }

    fn post_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let post = self.post(id);
        let random = &mut self.random(Stream::PostFigures, id);
        let language = LANGUAGES[random.between(0, LANGUAGES.len() as i64 - 1) as usize];
        let meta = format!("{{\"lang\": \"{language}\", \"words\": {}}}", random.between(50, 5_000));
        into(&[
            id.into(),
            self.uuid(post.author).as_str().into(),
            post.title.as_str().into(),
            post.slug.as_str().into(),
            null_if(post.is_draft, Param::Moment(post.published)),
            i64::from(random.percent(5)).into(),
            random.between(0, 10_000).into(),
            null_if(random.percent(30), random.between(0, 500).into()),
            null_if(random.percent(20), meta.as_str().into()),
        ])
    }

    fn post_tag_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::PostTags, id);
        let mut tags: Vec<String> = (0..random.between(0, 4)).map(|_| Self::any_tag(random)).collect();
        tags.sort();
        tags.dedup();
        tags.iter().try_for_each(|tag| into(&[id.into(), tag.as_str().into()]))
    }

    fn comment_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Comment, id);
        let place = (id - 1) % THREAD;
        let has_parent = place > 0 && random.percent(80);
        let mut body = String::new();
        random.letters(&mut body, 10, 50);
        into(&[
            id.into(),
            self.post_of(id).into(),
            if has_parent { (id - random.between(1, place)).into() } else { Param::Null },
            self.uuid(random.between(1, self.members)).as_str().into(),
            body.as_str().into(),
            random.between(-5, 100).into(),
            Param::Moment(moment(FIRST_ORDER_S, id, self.comments(), random)),
            i64::from(random.percent(5)).into(),
        ])
    }

    fn participant_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let Conversation { participants, messages } = self.conversation(id);
        participants.iter().zip(1..).try_for_each(|(&member, number)| {
            let last_read = messages - (id + number) % (messages + 1);
            let is_muted = i64::from((id + number) % 11 == 0);
            into(&[id.into(), self.uuid(member).as_str().into(), last_read.into(), is_muted.into()])
        })
    }

    fn message_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let Conversation { participants, messages } = self.conversation(id);
        let random = &mut self.random(Stream::Messages, id);
        let begun = moment(FIRST_ORDER_S, id, self.conversations(), random);
        (1..=messages).try_for_each(|number| {
            let sender = participants[random.between(0, participants.len() as i64 - 1) as usize];
            let mut body = String::new();
            random.letters(&mut body, 5, 50);
            let sent = begun + number * HOUR_S * MICROS;
            into(&[
                id.into(),
                number.into(),
                self.uuid(sender).as_str().into(),
                body.as_str().into(),
                Param::Moment(sent),
            ])
        })
    }

    fn notice_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Notice, id);
        let is_famous = random.percent(33);
        let member = if is_famous { self.famous_member(random) } else { random.between(1, self.members) };
        let sent = moment(FIRST_ORDER_S, id, self.notices(), random);
        let read_at = Param::Moment(sent + random.between(1, 100) * HOUR_S * MICROS);
        into(&[
            id.into(),
            self.uuid(member).as_str().into(),
            NOTICE_KINDS[random.between(0, NOTICE_KINDS.len() as i64 - 1) as usize].into(),
            Param::Moment(sent),
            null_if(random.percent(if is_famous { 1 } else { 25 }), read_at),
            null_if(random.percent(25), random.between(1, self.posts).into()),
        ])
    }

    fn room_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Room, id);
        let name = format!("Room {id}");
        into(&[
            id.into(),
            name.as_str().into(),
            Self::city(random).into(),
            (random.between(1, 12) * 5).into(),
            money(random.between(20, 300) * 100),
            i64::from(!random.percent(10)).into(),
        ])
    }

    fn booking_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Booking, id);
        let from_day = random.between(0, BOOKED_DAYS);
        let status = match random.between(1, 100) {
            1..=10 => "asked",
            11..=25 => "cancelled",
            _ => "paid",
        };
        into(&[
            id.into(),
            random.between(1, self.rooms()).into(),
            self.uuid(random.between(1, self.members)).as_str().into(),
            Self::day(from_day).as_str().into(),
            Self::day(from_day + random.between(1, 5)).as_str().into(),
            status.into(),
            money(random.between(20, 1_500) * 100),
            null_if(random.percent(80), "a window, please".into()),
        ])
    }

    fn entry_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Entry, id);
        let count = if id % BUSY_STEP == 0 { BUSY_ENTRIES } else { random.between(0, 4) };
        let member = self.uuid(id);
        (1..=count).try_for_each(|number| {
            let kind = random.between(0, ENTRY_KINDS.len() as i64 - 1);
            let moment = (FIRST_ORDER_S + number * 10 * HOUR_S + id % HOUR_S) * MICROS;
            let booking = null_if(kind > 0, random.between(1, self.bookings()).into());
            let cents = random.between(-20_000, 25_000);
            into(&[
                member.as_str().into(),
                number.into(),
                Param::Moment(moment),
                ENTRY_KINDS[kind as usize].into(),
                money(cents),
                booking,
            ])
        })
    }

    fn setting_rows(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Setting, id);
        let member = self.uuid(id);
        SETTINGS_NAMES.iter().try_for_each(|(name, values)| match random.between(0, 5) {
            at @ 0..=2 => into(&[member.as_str().into(), (*name).into(), values[at as usize].into()]),
            _ => Ok(()),
        })
    }
}

fn null_if(is_null: bool, value: Param<'_>) -> Param<'_> {
    if is_null { Param::Null } else { value }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn rows_are_the_same_whenever_they_are_drawn() {
        let community = Community { members: 100, posts: 400, seed: 1 };
        assert_eq!(community.uuid(7), community.uuid(7));
        assert_ne!(community.uuid(7), Community { seed: 2, ..community }.uuid(7));
        let uuids: HashSet<String> = (1..=200).map(|member| community.uuid(member)).collect();
        assert!(uuids.len() == 200 && uuids.iter().all(|uuid| uuid.len() == 36));
    }

    #[test]
    fn keys_of_two_columns_are_unique() {
        for members in [5, 100] {
            let community = Community { members, posts: 4, seed: 1 };
            for member in 1..=members {
                let followees: Vec<i64> = community.followees(member).collect();
                assert_eq!(followees.iter().collect::<HashSet<_>>().len(), followees.len());
                assert!(!followees.contains(&member));
                let participants = community.conversation(member).participants;
                assert_eq!(participants.iter().collect::<HashSet<_>>().len(), participants.len());
            }
        }
    }
}
