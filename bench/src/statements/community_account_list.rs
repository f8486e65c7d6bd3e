//! Statements of a [community](super::community) about accounts, bookings and texts.

use super::draw::Draw::{
    Author, Booking, BusyMember, City, Commented, Day, Handle, LaterDay, Member, Moment, Room, Times,
};
use super::statement::{Statement, read};

/// Running balances, days and ranges of days.
pub(super) const COMMUNITY_ACCOUNTS: &[Statement] = &[
    read(
        "running balance",
        "SELECT number, amount, sum(amount) OVER (ORDER BY number) AS balance FROM entries WHERE member = ? ORDER BY \
        number",
        &[BusyMember],
    ),
    read(
        "last entries with the balance",
        "SELECT number, amount, balance FROM (SELECT number, amount, sum(amount) OVER (ORDER BY number) AS balance \
        FROM entries WHERE member = ?) AS account ORDER BY number DESC LIMIT 10",
        &[BusyMember],
    ),
    read(
        "lowest balance",
        "SELECT min(balance) FROM (SELECT sum(amount) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) AS balance FROM \
        entries WHERE member = ?) AS account",
        &[BusyMember],
    ),
    read(
        "balance at a moment",
        "SELECT coalesce(sum(amount), 0), count(*) FROM entries WHERE member = ? AND moment <= ?",
        &[BusyMember, Moment(330 * 86_400)],
    ),
    read(
        "balance by a subquery of each entry",
        "SELECT e.number, (SELECT sum(x.amount) FROM entries x WHERE x.member = e.member AND x.number <= e.number) \
        FROM entries e WHERE e.member = ? AND e.number > 90 ORDER BY e.number",
        &[BusyMember],
    ),
    read(
        "balance of each kind",
        "SELECT kind, sum(amount), count(*) FROM entries WHERE member = ? GROUP BY kind HAVING sum(amount) < 0 ORDER \
        BY kind",
        &[BusyMember],
    ),
    read(
        "sums in and out",
        "SELECT sum(CASE WHEN amount > 0 THEN amount ELSE 0 END), sum(amount) FILTER (WHERE amount < 0), \
        count(booking) FROM entries WHERE member = ?",
        &[BusyMember],
    ),
    read(
        "sums of each day",
        "SELECT CAST(moment AS DATE) AS day, sum(amount), count(*) FROM entries WHERE member = ? GROUP BY CAST(moment \
        AS DATE) ORDER BY day",
        &[BusyMember],
    )
    .sqlite(
        "SELECT date(moment / 1000000, 'unixepoch') AS day, sum(amount), count(*) FROM entries WHERE member = ? GROUP \
        BY 1 ORDER BY day",
    ),
    read(
        "entries of a day",
        "SELECT number, amount FROM entries WHERE member = ? AND CAST(moment AS DATE) = '2023-01-07' ORDER BY number",
        &[BusyMember],
    )
    .sqlite(
        "SELECT number, amount FROM entries WHERE member = ? AND date(moment / 1000000, 'unixepoch') = '2023-01-07' \
        ORDER BY number",
    ),
    read(
        "change from entry to entry",
        "SELECT number, amount - lag(amount) OVER (ORDER BY number) AS change FROM entries WHERE member = ? ORDER BY \
        number LIMIT 20",
        &[BusyMember],
    ),
    read(
        "sums of seven entries",
        "SELECT number, sum(amount) OVER (ORDER BY number ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM entries \
        WHERE member = ? ORDER BY number DESC LIMIT 5",
        &[BusyMember],
    ),
    read(
        "share of each kind in order",
        "SELECT kind, number, row_number() OVER (PARTITION BY kind ORDER BY number) FROM entries WHERE member = ? \
        ORDER BY kind, number",
        &[BusyMember],
    ),
    read(
        "latest entry of each kind",
        "SELECT e.kind, e.number, e.amount FROM entries e WHERE e.member = ? AND e.number = (SELECT max(x.number) \
        FROM entries x WHERE x.member = e.member AND x.kind = e.kind) ORDER BY e.kind",
        &[BusyMember],
    ),
    read(
        "each entry with the next amount",
        "SELECT e.number, (SELECT x.amount FROM entries x WHERE x.member = e.member AND x.number > e.number ORDER BY \
        x.number LIMIT 1) FROM entries e WHERE e.member = ? ORDER BY e.number",
        &[BusyMember],
    ),
    read(
        "sums of two tables",
        "SELECT m.id, (SELECT coalesce(sum(e.amount), 0) FROM entries e WHERE e.member = m.id AND e.kind = 'fee'), \
        (SELECT coalesce(sum(b.price), 0) FROM bookings b WHERE b.member = m.id AND b.status = 'paid') FROM members m \
        WHERE m.handle = ?",
        &[Handle],
    ),
    read(
        "balances of a list",
        "SELECT m.id, m.handle, coalesce((SELECT sum(e.amount) FROM entries e WHERE e.member = m.id), 0) AS balance \
        FROM members m WHERE m.id IN (?*5) ORDER BY m.handle",
        &[Times(5, &Member)],
    ),
    read(
        "members in debt, of a list",
        "SELECT m.handle, sum(e.amount) FROM members m JOIN entries e ON e.member = m.id WHERE m.id IN (?*10) GROUP \
        BY m.id, m.handle HAVING sum(e.amount) < 0 ORDER BY m.handle",
        &[Times(10, &Member)],
    ),
    read(
        "entries with their bookings",
        "SELECT e.number, e.amount, b.from_day, r.name FROM entries e LEFT JOIN bookings b ON b.id = e.booking LEFT \
        JOIN rooms r ON r.id = b.room WHERE e.member = ? ORDER BY e.number DESC LIMIT 10",
        &[BusyMember],
    ),
    read(
        "bookings that overlap",
        "SELECT id, from_day, to_day FROM bookings WHERE room = ? AND to_day > ? AND from_day < ? AND status <> \
        'cancelled' ORDER BY from_day, id",
        &[Room, Day(7), LaterDay(7)],
    ),
    read(
        "is a room taken",
        "SELECT EXISTS (SELECT 1 FROM bookings WHERE room = ? AND to_day > ? AND from_day < ?)",
        &[Room, Day(3), LaterDay(3)],
    ),
    read(
        "free rooms of a city",
        "SELECT r.id, r.name FROM rooms r WHERE r.city = ? AND r.is_open AND r.seats >= 20 AND NOT EXISTS (SELECT 1 \
        FROM bookings b WHERE b.room = r.id AND b.to_day > ? AND b.from_day < ? AND b.status <> 'cancelled') ORDER BY \
        r.seats, r.id LIMIT 10",
        &[City, Day(3), LaterDay(3)],
    ),
    read(
        "free rooms by a left join",
        "SELECT r.id, r.price FROM rooms r LEFT JOIN bookings b ON b.room = r.id AND b.to_day > ? AND b.from_day <= ? \
        WHERE r.city = ? AND b.id IS NULL ORDER BY r.price, r.id LIMIT 10",
        &[Day(1), LaterDay(1), City],
    ),
    read(
        "bookings in conflict",
        "SELECT b.id, b.from_day FROM bookings a JOIN bookings b ON b.room = a.room AND b.id <> a.id AND b.from_day < \
        a.to_day AND b.to_day > a.from_day WHERE a.id = ? ORDER BY b.from_day, b.id",
        &[Booking],
    ),
    read(
        "gap before the next booking",
        "SELECT id, from_day, to_day, lead(from_day) OVER (ORDER BY from_day, id) AS next FROM bookings WHERE room = \
        ? AND from_day >= ? ORDER BY from_day, id LIMIT 5",
        &[Room, Day(60)],
    ),
    read("nights of bookings", "SELECT id, to_day - from_day FROM bookings WHERE member = ? ORDER BY id", &[Member])
    .sqlite(
        "SELECT id, CAST(julianday(to_day) - julianday(from_day) AS INTEGER) FROM bookings WHERE member = ? ORDER BY \
        id",
    ),
    read(
        "nights of a city's rooms",
        "SELECT r.id, count(*), sum(b.to_day - b.from_day) FROM rooms r JOIN bookings b ON b.room = r.id WHERE r.city \
        = ? AND r.seats = 20 AND b.from_day BETWEEN ? AND ? GROUP BY r.id ORDER BY r.id",
        &[City, Day(14), LaterDay(14)],
    )
    .sqlite(
        "SELECT r.id, count(*), sum(CAST(julianday(b.to_day) - julianday(b.from_day) AS INTEGER)) FROM rooms r JOIN \
        bookings b ON b.room = r.id WHERE r.city = ? AND r.seats = 20 AND b.from_day BETWEEN ? AND ? GROUP BY r.id \
        ORDER BY r.id",
    ),
    read(
        "bookings of each month",
        "SELECT substr(CAST(from_day AS TEXT), 1, 7) AS month, count(*), sum(price) FROM bookings WHERE room = ? \
        GROUP BY substr(CAST(from_day AS TEXT), 1, 7) ORDER BY month",
        &[Room],
    ),
    read(
        "bookings of a year",
        "SELECT count(*) FROM bookings WHERE room = ? AND extract(YEAR FROM from_day) = 2023",
        &[Room],
    )
    .sqlite("SELECT count(*) FROM bookings WHERE room = ? AND CAST(strftime('%Y', from_day) AS INTEGER) = 2023"),
    read(
        "arrivals of a day",
        "SELECT r.name, m.handle, b.to_day, coalesce(b.note, '') FROM bookings b JOIN rooms r ON r.id = b.room JOIN \
        members m ON m.id = b.member WHERE b.from_day = ? AND r.city = ? AND b.status = 'paid' ORDER BY r.name, b.id",
        &[Day(0), City],
    ),
    read(
        "rooms with their latest booking",
        "SELECT r.id, (SELECT b.from_day FROM bookings b WHERE b.room = r.id ORDER BY b.from_day DESC LIMIT 1) AS \
        latest FROM rooms r WHERE r.city = ? AND r.seats <= 15 ORDER BY r.id",
        &[City],
    ),
    read(
        "rooms without a booking",
        "SELECT r.id FROM rooms r LEFT JOIN bookings b ON b.room = r.id AND b.from_day BETWEEN ? AND ? WHERE r.city = \
        ? GROUP BY r.id HAVING count(b.id) = 0 ORDER BY r.id",
        &[Day(10), LaterDay(10), City],
    ),
    read(
        "rank of rooms by price",
        "SELECT id, city, rank() OVER (PARTITION BY city ORDER BY price DESC) FROM rooms WHERE city IN (?, ?) ORDER \
        BY city, id",
        &[City, City],
    ),
    read(
        "dearest room of each city",
        "SELECT r.city, r.id, r.price FROM rooms r WHERE r.is_open AND r.price = (SELECT max(x.price) FROM rooms x \
        WHERE x.city = r.city AND x.is_open) ORDER BY r.city, r.id",
        &[],
    ),
    read(
        "rooms of each size",
        "SELECT CASE WHEN seats < 20 THEN 'small' WHEN seats < 40 THEN 'middle' ELSE 'large' END AS size, count(*), \
        min(price) FROM rooms WHERE city = ? GROUP BY 1 ORDER BY 1",
        &[City],
    ),
    read(
        "cities with many rooms",
        "SELECT city, count(*) AS n FROM rooms WHERE is_open GROUP BY city HAVING count(*) >= 10 ORDER BY n DESC, city",
        &[],
    ),
];

/// Functions of texts, days and NULLs in outputs and conditions.
pub(super) const COMMUNITY_TEXTS: &[Statement] = &[
    read(
        "handle with a capital",
        "SELECT upper(substr(handle, 1, 1)) || substr(handle, 2), coalesce(email, handle || '@none') FROM members \
        WHERE id = ?",
        &[Member],
    ),
    read(
        "how long ago seen",
        "SELECT handle, CASE WHEN last_seen IS NULL THEN 'never' WHEN last_seen >= ? THEN 'recently' ELSE 'long ago' \
        END FROM members WHERE id IN (?*5) ORDER BY handle",
        &[Moment(30 * 86_400), Times(5, &Member)],
    ),
    read("lower case of a known handle", "SELECT id FROM members WHERE handle = lower(?)", &[Handle]),
    read(
        "status in capitals",
        "SELECT id, upper(status), price FROM bookings WHERE member = ? AND upper(status) IN ('PAID', 'ASKED') ORDER \
        BY id",
        &[Member],
    ),
    read(
        "unknown likes as none",
        "SELECT id, coalesce(likes, 0) FROM posts WHERE author = ? AND coalesce(likes, 0) < 100 ORDER BY id",
        &[Author],
    ),
    read(
        "birthdays, of a list",
        "SELECT handle, birthday FROM members WHERE id IN (?*20) AND birthday BETWEEN '1970-01-01' AND '1989-12-31' \
        ORDER BY birthday, handle",
        &[Times(20, &Member)],
    ),
    read(
        "born in a month, of a list",
        "SELECT handle FROM members WHERE id IN (?*20) AND substr(CAST(birthday AS TEXT), 6, 2) = '05' ORDER BY handle",
        &[Times(20, &Member)],
    ),
    read(
        "start of a body",
        "SELECT id, substr(body, 1, 20) || CASE WHEN length(body) > 20 THEN '...' ELSE '' END FROM comments WHERE \
        post = ? ORDER BY posted DESC LIMIT 5",
        &[Commented],
    ),
    read(
        "word within a title",
        "SELECT id, title FROM posts WHERE author = ? AND lower(title) LIKE '%ing%' ORDER BY id",
        &[Author],
    ),
    read(
        "other than a value or unknown",
        "SELECT id FROM posts WHERE author = ? AND (likes IS NULL OR likes <> 7) AND is_pinned IS NOT TRUE ORDER BY id",
        &[Author],
    ),
    read(
        "note or status",
        "SELECT id, coalesce(nullif(note, ''), status) FROM bookings WHERE room = ? AND from_day >= ? ORDER BY \
        from_day, id LIMIT 10",
        &[Room, Day(90)],
    ),
    read("kinds of a member's notices", "SELECT DISTINCT kind FROM notices WHERE member = ? ORDER BY kind", &[Member]),
    read(
        "truth values as numbers",
        "SELECT count(*), sum(CASE WHEN is_pinned THEN 1 ELSE 0 END), max(views) FROM posts WHERE author = ?",
        &[Author],
    ),
];
