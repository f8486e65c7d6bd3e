//! The rows of a session: the pages that a visitor opens one after the other, from the arrival to the departure.
//!
//! A session starts at a page to which a search, a link, an advertisement or a bookmark has led. Each further row is
//! the same page again (a reload or an event), another page of the site with the last one as its referer, a click on a
//! link that leads to another site, or a download.

use std::ops::Range;

use super::World;
use super::campaigns::Campaign;
use super::pages::{address_hash, page_hash, write_address, write_download, write_title};
use super::random::{Random, Stream, mix, scramble};
use super::searches::{draw_engine, phrase_count, write_phrase, write_result_page};
use super::sessions::Session;
use super::sites::Site;
use super::visitors::Visitor;

/// A piece of a batch's text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// The values that all rows of a session share.
pub(crate) struct Visit {
    pub(crate) site: u32,
    pub(crate) day: u8,
    pub(crate) visitor: Visitor,
    pub(crate) window: (i16, i16),
    pub(crate) window_name: i32,
    pub(crate) opener_name: i32,
    pub(crate) campaign: &'static Campaign,
}

/// One row, without the values that it shares with its session.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hit {
    /// The index of its session in the batch.
    pub(crate) visit: u32,
    pub(crate) watch_id: i64,
    /// The second of the day.
    pub(crate) second: u32,
    pub(crate) title: Span,
    pub(crate) url: Span,
    pub(crate) url_hash: i64,
    pub(crate) original_url: Span,
    pub(crate) referer: Span,
    pub(crate) referer_hash: i64,
    pub(crate) referer_category: i16,
    pub(crate) referer_region: i32,
    pub(crate) source: i16,
    pub(crate) search_engine: i16,
    pub(crate) search_phrase: Span,
    pub(crate) advertisement: i16,
    pub(crate) social_network: i16,
    /// Whether this is the page on which the session began.
    pub(crate) is_landing: bool,
    pub(crate) is_refresh: i16,
    pub(crate) is_link: i16,
    pub(crate) is_download: i16,
    pub(crate) is_not_bounce: i16,
    pub(crate) is_event: i16,
    pub(crate) is_uncounted: i16,
    /// The number of the loaded page. All rows about one load must have the same number.
    pub(crate) load: i32,
    pub(crate) history: i16,
    pub(crate) timings: Timings,
}

/// The milliseconds that the parts of loading a page took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timings {
    pub(crate) send: i32,
    pub(crate) dns: i32,
    pub(crate) connect: i32,
    pub(crate) response_start: i32,
    pub(crate) response_end: i32,
    pub(crate) fetch: i32,
}

/// Some rows of the table, before we turn them into columns.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) hits: Vec<Hit>,
    pub(crate) visits: Vec<Visit>,
    text: String,
}

/// Values of `TraficSourceID`.
mod source {
    pub(super) const INSIDE: i16 = -1;
    pub(super) const DIRECT: i16 = 0;
    pub(super) const LINK: i16 = 1;
    pub(super) const SEARCH: i16 = 2;
    pub(super) const ADVERTISEMENT: i16 = 3;
    pub(super) const BOOKMARK: i16 = 6;
    pub(super) const SOCIAL: i16 = 8;
}

/// The values of `AdvEngineID` other than zero, with their weights.
const ADVERTISEMENTS: &[(u32, i16)] = &[
    (640, 2),
    (180, 27),
    (60, 13),
    (45, 45),
    (25, 44),
    (15, 3),
    (10, 62),
    (8, 52),
    (6, 50),
    (4, 28),
    (3, 53),
    (2, 25),
    (1, 61),
    (1, 21),
];

/// A site has one page that is not counted itself, but links to counted pages, for each of this number of pages.
const UNCOUNTED_PAGES: u64 = 60;

impl Batch {
    /// Returns the text of a span.
    #[inline]
    pub(crate) fn text(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Removes all rows, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.hits.clear();
        self.visits.clear();
        self.text.clear();
    }

    fn write(&mut self, write: impl FnOnce(&mut String)) -> Span {
        let start = self.text.len() as u32;
        write(&mut self.text);
        Span { start, end: self.text.len() as u32 }
    }
}

impl World {
    /// Appends rows of `session` to `batch`: those in the range `wanted`, counted within the session. The session's
    /// first row has the number `first_row` in the table.
    pub(crate) fn fill(&self, session: &Session, first_row: u64, wanted: Range<u32>, batch: &mut Batch) {
        let mut random = Random::new(self.seed, Stream::Session, session.number);
        let site = self.sites.get(session.site as usize);
        let visit = self.visit(session, &mut random);
        let mut walk = Walk { world: self, site, batch, visitor: visit.visitor, page: 0, random };
        let mut hit = Hit { visit: walk.batch.visits.len() as u32, ..Hit::default() };
        walk.batch.visits.push(visit);
        let mut second = session.start;
        // We make all earlier rows too, because the random stream and the referers of a row depend on them. Only the
        // wanted rows are kept.
        for row in 0..session.rows.min(wanted.end) {
            if row == 0 {
                walk.land(&mut hit);
            } else {
                // The whole session must fit into the day.
                let gap_max = (86_399 - second) / (session.rows - row);
                second += (1 + walk.random.skewed(500) as u32).min(gap_max);
                walk.step(&mut hit);
            }
            hit.second = second;
            hit.watch_id = watch_id(self.seed, first_row + u64::from(row));
            if row >= wanted.start {
                walk.batch.hits.push(hit);
            }
        }
    }

    fn visit(&self, session: &Session, random: &mut Random) -> Visit {
        let visitor = self.visitors.get(session.visitor);
        Visit {
            site: session.site,
            day: session.day,
            visitor,
            window: draw_window(random, &visitor),
            window_name: if random.chance(0.22) { random.below(1 << 30) as i32 } else { -1 },
            opener_name: if random.chance(0.09) { random.below(1 << 30) as i32 } else { -1 },
            campaign: Campaign::draw(random),
        }
    }
}

/// A visitor on the way through a site.
struct Walk<'a> {
    world: &'a World,
    site: &'a Site,
    batch: &'a mut Batch,
    visitor: Visitor,
    page: u64,
    random: Random,
}

impl Walk<'_> {
    /// Makes the first row of a session.
    fn land(&mut self, hit: &mut Hit) {
        hit.is_landing = true;
        hit.history = if self.random.chance(0.08) { -1 } else { 1 + self.random.skewed(40) as i16 };
        self.open(hit);
        // The numbers are shares in a thousand.
        match self.random.below(1_000) {
            0..376 => self.come_by_search(hit),
            376..394 => self.come_by_advertisement(hit),
            394..590 => hit.source = source::DIRECT,
            590..780 => self.come_by_link(hit),
            780..830 => self.come_by_social_network(hit),
            830..980 => self.come_from_inside(hit),
            _ => hit.source = source::BOOKMARK,
        }
    }

    /// Makes a further row.
    fn step(&mut self, hit: &mut Hit) {
        // The numbers are shares in a thousand.
        match self.random.below(1_000) {
            0..130 => self.stay(hit, 1, 0),
            130..142 => self.stay(hit, 0, 1),
            142..220 => self.stay(hit, 0, 0),
            220..258 => self.leave_by_link(hit),
            258..260 => self.download(hit),
            _ => self.go_on(hit),
        }
    }

    /// Opens a page of the site: the home page, a neighbour of the last page, or any page.
    fn open(&mut self, hit: &mut Hit) {
        let random = &mut self.random;
        self.page = match random.unit() {
            u if u < self.site.home_share => 0,
            u if u < self.site.home_share * 1.3 => 1,
            u if u > 0.8 && self.page > 1 && self.page + 1 < self.site.pages => self.page + 1,
            _ => random.skewed(self.site.pages),
        };
        let (seed, site, page, words) = (self.world.seed, self.site, self.page, &self.world.words);
        hit.url = self.batch.write(|out| write_address(out, seed, site, page, words));
        hit.title = self.batch.write(|out| write_title(out, seed, site, page, words));
        hit.url_hash = page_hash(site, page, self.batch.text(hit.url));
        hit.original_url = if site.rewrites { hit.url } else { Span::default() };
        self.load(hit);
    }

    /// Sets the values that a newly loaded page brings.
    fn load(&mut self, hit: &mut Hit) {
        let random = &mut self.random;
        hit.is_refresh = 0;
        hit.is_event = 0;
        hit.is_uncounted = i16::from(random.chance(0.03));
        hit.is_not_bounce = i16::from(random.chance(0.12));
        hit.load = 1 + random.below((1 << 30) - 1) as i32;
        hit.timings = draw_timings(random, self.visitor.reports_timings);
    }

    /// Makes a row of the same page again.
    fn stay(&mut self, hit: &mut Hit, is_refresh: i16, is_event: i16) {
        let load = hit.load;
        self.load(hit);
        // A refresh loads the page again. An event belongs to the earlier load, so it keeps the load's number.
        if is_refresh == 0 {
            hit.load = load;
            hit.is_not_bounce = 1;
        }
        hit.is_refresh = is_refresh;
        hit.is_event = is_event;
    }

    /// Goes from the last page to another one.
    fn go_on(&mut self, hit: &mut Hit) {
        self.leave_page(hit);
        self.open(hit);
        if hit.history > 0 {
            hit.history += 1;
        }
    }

    /// Clicks on a link to another site. The row's address is the target of the link.
    fn leave_by_link(&mut self, hit: &mut Hit) {
        let (page, site) = (self.page, self.site);
        self.leave_page(hit);
        let there = self.world.sites.draw(&mut self.random);
        self.page = self.random.mildly_skewed(there.pages);
        self.site = there;
        self.show_address(hit);
        // The visitor stays on this site, so we restore the page after we have written the other site's address.
        (self.page, self.site) = (page, site);
        hit.is_link = 1;
    }

    fn show_address(&mut self, hit: &mut Hit) {
        let (seed, site, page, words) = (self.world.seed, self.site, self.page, &self.world.words);
        hit.url = self.batch.write(|out| write_address(out, seed, site, page, words));
        hit.url_hash = page_hash(site, page, self.batch.text(hit.url));
        hit.title = Span::default();
        hit.original_url = Span::default();
        self.load(hit);
    }

    fn download(&mut self, hit: &mut Hit) {
        self.leave_page(hit);
        let (seed, site, page, words) = (self.world.seed, self.site, self.page, &self.world.words);
        hit.url = self.batch.write(|out| write_download(out, seed, site, page, words));
        hit.url_hash = address_hash(self.batch.text(hit.url));
        hit.title = Span::default();
        self.load(hit);
        hit.is_download = 1;
    }

    /// Makes the last page the referer of the next one. If the last row led to another site, we keep its referer,
    /// because the visitor never left that page.
    fn leave_page(&mut self, hit: &mut Hit) {
        if self.visitor.hides_referer {
            (hit.referer, hit.referer_hash) = (Span::default(), 0);
        } else if self.random.chance(0.57) {
            // Between the two pages the visitor was on a list of pages.
            let page = self.random.skewed(60.min(self.site.pages));
            self.refer_to(hit, self.site, page);
        } else if hit.is_link + hit.is_download == 0 {
            (hit.referer, hit.referer_hash) = (hit.url, hit.url_hash);
        }
        hit.is_link = 0;
        hit.is_download = 0;
        hit.source = source::INSIDE;
        hit.referer_category = self.site.category;
        hit.referer_region = self.site.region;
        hit.search_engine = 0;
        hit.search_phrase = Span::default();
        hit.advertisement = 0;
        hit.social_network = 0;
        hit.is_landing = false;
    }

    fn come_by_search(&mut self, hit: &mut Hit) {
        let world = self.world;
        let number = self.random.skewed(phrase_count(world.rows));
        hit.source = source::SEARCH;
        hit.search_engine = draw_engine(&mut self.random, world.seed, number);
        hit.search_phrase = self.batch.write(|out| write_phrase(out, world.seed, number, &world.words));
        // The address contains the phrase. We must copy the phrase, because it is part of the text to which we append
        // the address.
        let phrase = self.batch.text(hit.search_phrase).to_owned();
        let (random, engine, region) = (&mut self.random, hit.search_engine, self.visitor.region);
        hit.referer = self.batch.write(|out| write_result_page(out, random, engine, &phrase, region));
        hit.referer_hash = address_hash(self.batch.text(hit.referer));
    }

    fn come_by_advertisement(&mut self, hit: &mut Hit) {
        hit.source = source::ADVERTISEMENT;
        hit.advertisement = self.random.pick(ADVERTISEMENTS);
        self.come_from(hit);
    }

    fn come_by_link(&mut self, hit: &mut Hit) {
        hit.source = source::LINK;
        self.come_from(hit);
    }

    /// Comes from a page of another site.
    fn come_from(&mut self, hit: &mut Hit) {
        let there = self.world.sites.draw(&mut self.random);
        let page = match self.random.chance(0.5) {
            true => self.random.skewed(there.pages),
            // Numbers above the site's pages give addresses that no row of the table has as its own page.
            false => there.pages + self.random.skewed(1 + there.pages / UNCOUNTED_PAGES),
        };
        self.refer_to(hit, there, page);
    }

    /// Makes a page the referer.
    fn refer_to(&mut self, hit: &mut Hit, there: &Site, page: u64) {
        let (seed, words) = (self.world.seed, &self.world.words);
        hit.referer = self.batch.write(|out| write_address(out, seed, there, page, words));
        hit.referer_hash = page_hash(there, page, self.batch.text(hit.referer));
        hit.referer_category = there.category;
        hit.referer_region = there.region;
    }

    fn come_by_social_network(&mut self, hit: &mut Hit) {
        use std::fmt::Write as _;
        hit.source = source::SOCIAL;
        hit.social_network = self.random.pick(&[(6, 1), (3, 2), (1, 3)]);
        let host = ["vk.com", "odnoklassniki.ru", "facebook.com"][hit.social_network as usize - 1];
        let who = self.random.skewed(self.world.visitors.count / 20);
        // Writing to a String cannot fail.
        hit.referer = self.batch.write(|out| _ = write!(out, "http://{host}/away.php?from=id{}", who + 10_000));
        hit.referer_hash = address_hash(self.batch.text(hit.referer));
    }

    /// Continues a session that began before: the referer is another page of this site.
    fn come_from_inside(&mut self, hit: &mut Hit) {
        let page = match self.random.unit() {
            u if u < self.site.home_share => 1,
            u if u < 0.5 => 0,
            _ => self.random.skewed(self.site.pages),
        };
        hit.source = source::INSIDE;
        self.refer_to(hit, self.site, page);
        hit.is_landing = false;
    }
}

/// `WatchID`: distinct for every row, without a visible order.
fn watch_id(seed: u64, row: u64) -> i64 {
    // The highest bit below the sign is always set, so that the ids have the same length.
    (1 << 62 | scramble(row, 62, mix(seed))) as i64
}

/// Draws the part of the screen that the page occupies.
fn draw_window(random: &mut Random, visitor: &Visitor) -> (i16, i16) {
    let width = match random.below(10) {
        0..2 => visitor.width,
        2 => visitor.width - random.any(&[15, 16, 17, 21]),
        _ => visitor.width - random.skewed(visitor.width as u64 * 2 / 3) as i16,
    };
    let bars = 40 + random.mildly_skewed(visitor.height as u64 * 3 / 5) as i16;
    (width, visitor.height - bars)
}

fn draw_timings(random: &mut Random, reported: bool) -> Timings {
    if !reported {
        return Timings { send: -1, dns: -1, connect: -1, response_start: -1, response_end: -1, fetch: -1 };
    }
    let mut within = |max: u64, none: f64| {
        if random.chance(none) { 0 } else { random.skewed(max) as i32 }
    };
    Timings {
        send: within(4_000, 0.3),
        dns: within(900, 0.7),
        connect: within(1_500, 0.6),
        response_start: within(6_000, 0.1),
        response_end: within(5_000, 0.2),
        fetch: within(20_000, 0.2),
    }
}
