//! Parameter values: the kinds of values that statements need, and how we draw them.

use super::community::Community;
use super::shop::{COUNTER_COUNT, Shop};
use crate::tpcc::client::{Param, money};
use crate::tpcc::random::{Random, last_name};
use crate::tpcc::scale::{DISTRICTS, Scale};

/// The kind of value that a parameter gets.
#[derive(Clone, Copy, Debug)]
pub enum Draw {
    /// The number of a user.
    User,
    /// The number of a user who has orders: we draw an order and take its user.
    Buyer,
    /// The e-mail address of a user.
    Email,
    /// The full name of a user.
    Name,
    /// The first name of a user and the first letters of the last name, followed by `%`.
    NamePattern,
    /// The country of a user.
    Country,
    /// The moment at which a user was created.
    UserCreated,
    /// The number of an order.
    Order,
    /// The moment of the order whose number or user was drawn before, or of any order if none was.
    OrderCreated,
    /// The number of the order that was drawn before.
    SameOrder,
    /// The number of a product.
    Product,
    /// The stock keeping unit of a product.
    Sku,
    /// A category of products.
    Category,
    /// One of the texts.
    OneOf(&'static [&'static str]),
    /// The name of a counter.
    Counter,
    /// A moment within the orders, with orders during at least this number of seconds after it.
    Moment(i64),
    /// The moment that was drawn last, plus this number of seconds.
    Later(i64),
    /// A whole number from the first bound to the second.
    Number(i64, i64),
    /// The whole number that was drawn last, plus this number.
    More(i64),
    /// An amount in cents, from the first bound to the second.
    Cents(i64, i64),
    /// A number that no row of any table has.
    Fresh,
    /// The first of ten million numbers that no row of any table has.
    FreshBlock,
    /// An e-mail address that no user has.
    FreshEmail,
    /// The value of an earlier parameter, given by its index from 0.
    Again(usize),
    /// Several values of another kind.
    Times(usize, &'static Draw),

    /// The UUID of a member of the community.
    Member,
    /// The UUID of a member with a long account.
    BusyMember,
    /// The UUID of a member with many notices.
    FamousMember,
    /// The handle of a member.
    Handle,
    /// The UUID of a member who follows others, or of any member if the first ones that we try follow no member.
    Follower,
    /// The UUID of one whom the member that was drawn last follows, or of that member if there is none.
    Followee,
    /// The number of a post.
    Post,
    /// The UUID of the author of a post.
    Author,
    /// The part of a post's address that no other post has.
    Slug,
    /// The moment of the post that was drawn before, or of any post if none was.
    Published,
    /// The number of the post that was drawn before.
    SamePost,
    /// A tag.
    Tag,
    /// The number of a comment.
    Comment,
    /// The number of a post with comments.
    Commented,
    /// The number of a conversation.
    Conversation,
    /// The UUID of a participant of the conversation that was drawn before, or of any conversation if none was.
    Participant,
    /// The number of a notice.
    Notice,
    /// The number of a room.
    Room,
    /// A city with rooms.
    City,
    /// The number of a booking.
    Booking,
    /// A day on which bookings begin, with such days during at least this number of days after it.
    Day(i64),
    /// The day that was drawn last, plus this number of days.
    LaterDay(i64),
    /// A UUID that no member has.
    FreshUuid,
    /// A handle that no member has.
    FreshHandle,

    /// A district of TPC-C's first warehouse.
    District,
    /// A customer of a district.
    Customer,
    /// The last name of customers.
    LastName,
    /// A delivered order of a district.
    Delivered,
    /// An order of a district with twenty earlier ones.
    Recent,
    /// An undelivered order of a district.
    Undelivered,
    /// An item.
    Item,
}

/// A value that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawn {
    /// A whole number.
    Integer(i64),
    /// An amount in cents.
    Cents(i64),
    /// Microseconds since 1970.
    Moment(i64),
    /// A text.
    Text(String),
}

impl Drawn {
    /// Returns the value as a parameter.
    pub fn param(&self) -> Param<'_> {
        match self {
            Drawn::Integer(number) => Param::Integer(*number),
            Drawn::Cents(cents) => money(*cents),
            Drawn::Moment(micros) => Param::Moment(*micros),
            Drawn::Text(text) => Param::Text(text),
        }
    }
}

/// Draws the values of parameters.
#[derive(Debug)]
pub struct Drawing {
    shop: Shop,
    community: Community,
    scale: Scale,
    random: Random,
    /// The next number for [`Draw::Fresh`].
    fresh: i64,
    /// The values that were drawn last for the same statement. An order, a post or a conversation of 0 means
    /// none.
    order: i64,
    number: i64,
    moment: i64,
    member: i64,
    post: i64,
    conversation: i64,
    day: i64,
}

impl Drawing {
    /// Makes a drawing for these tables. No row may have the number `fresh` or a greater one. Different streams of one
    /// seed give different values.
    pub fn new(shop: Shop, community: Community, scale: Scale, fresh: i64, stream: u64) -> Drawing {
        // This stream collides with no stream of rows, because the highest byte of theirs is small.
        let random = Random::new(shop.seed, u64::MAX - stream);
        Drawing {
            shop,
            community,
            scale,
            random,
            fresh,
            order: 0,
            number: 0,
            moment: 0,
            member: 1,
            post: 0,
            conversation: 0,
            day: 0,
        }
    }

    /// A number that no row has.
    pub fn fresh(&self) -> i64 {
        self.fresh
    }

    /// Draws a value for each parameter.
    pub fn draw(&mut self, draws: &[Draw]) -> Vec<Drawn> {
        let mut drawn: Vec<Drawn> = Vec::new();
        (self.order, self.post, self.conversation) = (0, 0, 0);
        for draw in draws {
            match draw {
                Draw::Again(at) => drawn.push(drawn[*at].clone()),
                Draw::Times(times, draw) => (0..*times).for_each(|_| drawn.push(self.one(draw))),
                draw => drawn.push(self.one(draw)),
            }
        }
        drawn
    }

    fn one(&mut self, draw: &Draw) -> Drawn {
        let user = |drawing: &mut Self| {
            let id = drawing.random.between(1, drawing.shop.users);
            drawing.shop.user(id)
        };
        match draw {
            Draw::User => self.number_between(1, self.shop.users),
            Draw::Buyer => {
                self.draw_order();
                self.number(self.shop.order(self.order).user)
            }
            Draw::Email => Drawn::Text(user(self).email),
            Draw::Name => Drawn::Text(user(self).name),
            Draw::NamePattern => {
                let name = user(self).name;
                let letters = name.find(' ').map_or(name.len(), |space| space + 5);
                Drawn::Text(format!("{}%", &name[..letters.min(name.len())]))
            }
            Draw::Country => Drawn::Text(user(self).country.to_owned()),
            Draw::UserCreated => {
                let created = user(self).created;
                self.moment(created)
            }
            Draw::Order => {
                self.draw_order();
                self.number(self.order)
            }
            Draw::OrderCreated => {
                if self.order == 0 {
                    self.draw_order();
                }
                let created = self.shop.order(self.order).created;
                self.moment(created)
            }
            Draw::SameOrder => self.number(self.order),
            Draw::Product => self.number_between(1, self.shop.products()),
            Draw::Sku => Drawn::Text(Shop::sku(self.random.between(1, self.shop.products()))),
            Draw::Category => Drawn::Text(Shop::category(self.random.between(0, 1_000)).to_owned()),
            Draw::OneOf(texts) => {
                Drawn::Text(texts[self.random.between(0, texts.len() as i64 - 1) as usize].to_owned())
            }
            Draw::Counter => Drawn::Text(Shop::counter(self.random.between(1, COUNTER_COUNT))),
            Draw::Moment(seconds) => {
                let moment = Shop::moment_of_orders(&mut self.random, *seconds);
                self.moment(moment)
            }
            Draw::Later(seconds) => Drawn::Moment(self.moment + seconds * 1_000_000),
            Draw::Number(low, high) => self.number_between(*low, *high),
            Draw::More(more) => Drawn::Integer(self.number + more),
            Draw::Cents(low, high) => Drawn::Cents(self.random.between(*low, *high)),
            Draw::Fresh => self.fresh_number().into(),
            Draw::FreshBlock => (self.fresh_number() * 10_000_000).into(),
            Draw::FreshEmail => Drawn::Text(format!("fresh.{}@example.com", self.fresh_number())),
            Draw::Again(_) | Draw::Times(..) => unreachable!("draw() handles both before it draws single values"),
            Draw::Member => {
                let member = self.random.between(1, self.community.members);
                self.member(member)
            }
            Draw::BusyMember => {
                let member = self.community.busy_member(&mut self.random);
                self.member(member)
            }
            Draw::FamousMember => {
                let member = self.community.famous_member(&mut self.random);
                self.member(member)
            }
            Draw::Handle => Drawn::Text(self.community.handle(self.random.between(1, self.community.members))),
            Draw::Follower => {
                let first = self.random.between(1, self.community.members);
                let mut some = first..=(first + 20).min(self.community.members);
                let member = some.find(|&member| self.community.followees(member).next().is_some()).unwrap_or(first);
                self.member(member)
            }
            Draw::Followee => {
                let followees: Vec<i64> = self.community.followees(self.member).collect();
                let at = self.random.between(0, (followees.len() as i64 - 1).max(0)) as usize;
                let followee = followees.get(at).copied().unwrap_or(self.member);
                Drawn::Text(self.community.uuid(followee))
            }
            Draw::Post => {
                self.draw_post();
                self.number(self.post)
            }
            Draw::Author => {
                self.draw_post();
                let author = self.community.post(self.post).author;
                self.member(author)
            }
            Draw::Slug => {
                self.draw_post();
                Drawn::Text(self.community.post(self.post).slug)
            }
            Draw::Published => {
                if self.post == 0 {
                    self.draw_post();
                }
                let published = self.community.post(self.post).published;
                self.moment(published)
            }
            Draw::SamePost => self.number(self.post),
            Draw::Tag => Drawn::Text(Community::any_tag(&mut self.random)),
            Draw::Comment => self.number_between(1, self.community.comments()),
            Draw::Commented => {
                let comment = self.random.between(1, self.community.comments());
                self.post = self.community.post_of(comment);
                self.number(self.post)
            }
            Draw::Conversation => {
                self.draw_conversation();
                self.number(self.conversation)
            }
            Draw::Participant => {
                if self.conversation == 0 {
                    self.draw_conversation();
                }
                let participants = self.community.conversation(self.conversation).participants;
                let at = self.random.between(0, participants.len() as i64 - 1) as usize;
                self.member(participants[at])
            }
            Draw::Notice => self.number_between(1, self.community.notices()),
            Draw::Room => self.number_between(1, self.community.rooms()),
            Draw::City => Drawn::Text(Community::city(&mut self.random).to_owned()),
            Draw::Booking => self.number_between(1, self.community.bookings()),
            Draw::Day(days) => {
                self.day = Community::booked_day(&mut self.random, *days);
                Drawn::Text(Community::day(self.day))
            }
            Draw::LaterDay(days) => Drawn::Text(Community::day(self.day + days)),
            Draw::FreshUuid => {
                let number = self.fresh_number();
                Drawn::Text(self.community.uuid(number))
            }
            Draw::FreshHandle => Drawn::Text(format!("fresh{}", self.fresh_number())),
            Draw::District => self.random.between(1, DISTRICTS).into(),
            Draw::Customer => self.random.between(1, self.scale.customers).into(),
            Draw::LastName => {
                let mut name = String::new();
                last_name(&mut name, self.random.between(0, self.scale.last_names() - 1));
                Drawn::Text(name)
            }
            Draw::Delivered => self.number_between(1, self.scale.delivered()),
            Draw::Recent => self.number_between(21.min(self.scale.customers), self.scale.customers),
            Draw::Undelivered => self.number_between(self.scale.delivered() + 1, self.scale.customers),
            Draw::Item => self.random.between(1, self.scale.items).into(),
        }
    }

    fn draw_order(&mut self) {
        self.order = self.random.between(1, self.shop.orders);
    }

    fn draw_post(&mut self) {
        self.post = self.random.between(1, self.community.posts);
    }

    fn draw_conversation(&mut self) {
        self.conversation = self.random.between(1, self.community.conversations());
    }

    fn member(&mut self, member: i64) -> Drawn {
        self.member = member;
        Drawn::Text(self.community.uuid(member))
    }

    fn number_between(&mut self, low: i64, high: i64) -> Drawn {
        let number = self.random.between(low, high);
        self.number(number)
    }

    fn number(&mut self, number: i64) -> Drawn {
        self.number = number;
        Drawn::Integer(number)
    }

    fn moment(&mut self, micros: i64) -> Drawn {
        self.moment = micros;
        Drawn::Moment(micros)
    }

    fn fresh_number(&mut self) -> i64 {
        self.fresh += 1;
        self.fresh - 1
    }
}

impl From<i64> for Drawn {
    fn from(number: i64) -> Self {
        Drawn::Integer(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_parameters_follow_from_earlier_ones() {
        let shop = Shop { users: 100, orders: 500, seed: 1 };
        let community = Community { members: 100, posts: 400, seed: 1 };
        let mut drawing = Drawing::new(shop, community, Scale::TINY, 1_000, 0);
        for _ in 0..100 {
            let drawn = drawing.draw(&[Draw::Order, Draw::OrderCreated, Draw::Again(0), Draw::More(10)]);
            let [Drawn::Integer(order), Drawn::Moment(created), same, Drawn::Integer(more)] = &drawn[..] else {
                panic!("{drawn:?}")
            };
            assert_eq!((*created, same, *more), (shop.order(*order).created, &drawn[0], order + 10));
        }
        assert_eq!(drawing.draw(&[Draw::Fresh, Draw::Fresh]), [Drawn::Integer(1_000), Drawn::Integer(1_001)]);
        assert_eq!(drawing.draw(&[Draw::Times(10, &Draw::User)]).len(), 10);
        let drawn = drawing.draw(&[Draw::Post, Draw::Published, Draw::SamePost]);
        let [Drawn::Integer(post), published, same] = &drawn[..] else { panic!("{drawn:?}") };
        assert_eq!((published, same), (&Drawn::Moment(community.post(*post).published), &drawn[0]));
    }
}
