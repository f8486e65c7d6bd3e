//! Visitors: everything that a row says about the person and the machine. It must be the same in all of their sessions.

use super::random::{Random, Stream, Zipf, mix, scramble};

/// Visitors in the pool for each row of the table.
const VISITORS_PER_ROW: f64 = 0.31;
/// Addresses for each visitor. Many visitors share one address, because a provider has fewer addresses than customers.
const ADDRESSES_PER_VISITOR: f64 = 0.37;
/// Networks of providers; each belongs to a region.
const NETWORKS: u64 = 4_096;
const REGIONS: usize = 9_040;
const PHONE_MODELS: usize = 166;

/// The number of the one visitor that a query asks for by id, and the id.
pub(crate) const KNOWN_VISITOR: u64 = u64::MAX;
const KNOWN_USER_ID: i64 = 435_090_932_899_640_449;

/// The values that all visitors draw from.
pub(crate) struct Visitors {
    seed: u64,
    pub(crate) count: u64,
    regions: Zipf,
    network_regions: Vec<usize>,
    phones: Vec<(i16, String)>,
}

/// One visitor.
#[derive(Clone, Copy)]
pub(crate) struct Visitor {
    pub(crate) user_id: i64,
    pub(crate) cookie_id: i64,
    pub(crate) client_ip: i32,
    pub(crate) remote_ip: i32,
    pub(crate) network: i32,
    pub(crate) region: i32,
    /// The time zone, in minutes east of UTC.
    pub(crate) time_zone: i16,
    /// The seconds by which the visitor's clock is ahead.
    pub(crate) clock_error: i32,
    pub(crate) os: i16,
    pub(crate) browser: i16,
    pub(crate) browser_major: i16,
    pub(crate) browser_minor: &'static str,
    pub(crate) java: i16,
    pub(crate) cookies: i16,
    pub(crate) javascript: i16,
    pub(crate) is_mobile: i16,
    pub(crate) phone_vendor: i16,
    /// The number of the phone model, if the visitor uses a phone that sends its name.
    pub(crate) phone_model: Option<u16>,
    pub(crate) width: i16,
    pub(crate) height: i16,
    pub(crate) depth: i16,
    pub(crate) flash: (i16, i16, &'static str),
    pub(crate) net: (i16, i16),
    pub(crate) silverlight: Silverlight,
    pub(crate) age: i16,
    pub(crate) sex: i16,
    pub(crate) income: i16,
    pub(crate) interests: i16,
    pub(crate) robotness: i16,
    pub(crate) language: &'static str,
    pub(crate) country: &'static str,
    /// Whether the browser reports the time to load a page.
    pub(crate) reports_timings: bool,
    /// Whether the browser hides the page from which it comes.
    pub(crate) hides_referer: bool,
}

impl Visitors {
    pub(crate) fn new(seed: u64, rows: u64) -> Visitors {
        let regions = Zipf::new(REGIONS, 2.5);
        let network_regions =
            (0..NETWORKS).map(|network| regions.draw(&mut Random::new(seed, Stream::Network, network))).collect();
        let count = ((rows as f64 * VISITORS_PER_ROW) as u64).max(4);
        Visitors { seed, count, regions, network_regions, phones: phones() }
    }

    /// Returns the name of a phone model.
    pub(crate) fn phone_name(&self, model: Option<u16>) -> &str {
        model.map_or("", |model| &self.phones[usize::from(model)].1)
    }

    /// Returns visitor number `number`.
    pub(crate) fn get(&self, number: u64) -> Visitor {
        let mut random = Random::new(self.seed, Stream::Visitor, number);
        let random = &mut random;
        // The known visitor has the greatest possible number, so we limit it to the range of addresses.
        let address = (number.min(self.count) as f64 * ADDRESSES_PER_VISITOR) as u64;
        let place = self.place(address);
        let phone = random.chance(0.0565).then(|| random.skewed(PHONE_MODELS as u64) as u16);
        let is_mobile = phone.is_some() || random.chance(0.006);
        let (os, browser) = if is_mobile { draw_mobile(random) } else { draw_desktop(random) };
        let (width, height, depth) = if is_mobile { draw_small_screen(random) } else { draw_screen(random) };
        let explorer = browser == 7;
        Visitor {
            user_id: user_id(self.seed, number),
            cookie_id: if random.chance(0.45) { 0 } else { (mix(number ^ self.seed ^ 0xc00c1e) >> 1) as i64 },
            client_ip: place.ip,
            remote_ip: if random.chance(0.97) { place.ip } else { place.ip ^ random.below(255) as i32 },
            network: place.network,
            region: place.region,
            time_zone: place.time_zone,
            clock_error: draw_clock_error(random),
            os,
            browser,
            browser_major: draw_browser_major(random, browser),
            browser_minor: if explorer { "0" } else { random.pick(BROWSER_MINORS) },
            java: i16::from(!is_mobile && random.chance(0.74)),
            cookies: i16::from(random.chance(0.998)),
            javascript: i16::from(random.chance(0.999)),
            is_mobile: i16::from(is_mobile),
            phone_vendor: phone.map_or(0, |model| self.phones[usize::from(model)].0),
            phone_model: phone,
            width,
            height,
            depth,
            flash: if is_mobile { (0, 0, "") } else { random.pick(FLASH) },
            net: if explorer { random.pick(&[(5, (3, 5)), (4, (2, 0)), (3, (4, 0)), (3, (0, 0))]) } else { (0, 0) },
            silverlight: if is_mobile { (0, 0, 0, 0) } else { random.pick(SILVERLIGHT) },
            age: random.pick(&[(38, 0), (9, 16), (17, 22), (20, 31), (11, 50), (5, 55)]),
            sex: random.pick(&[(36, 0), (33, 1), (31, 2)]),
            income: random.pick(&[(40, 0), (25, 1), (22, 2), (13, 3)]),
            interests: draw_interests(random),
            robotness: random.pick(&[(970, 0), (20, 1), (7, 2), (3, 4)]),
            language: random.pick(&[(84, "ru"), (8, "en"), (4, "uk"), (2, "be"), (1, "kk"), (1, "de")]),
            country: random.pick(&[(78, "RU"), (9, "UA"), (5, "US"), (4, "BY"), (3, "KZ"), (1, "DE")]),
            reports_timings: random.chance(0.62),
            hides_referer: random.chance(0.09),
        }
    }

    fn place(&self, address: u64) -> Place {
        let mut random = Random::new(self.seed, Stream::Address, address);
        // Network and place within it are scrambled separately, so that the addresses of a network share their high
        // half.
        let network = address % NETWORKS;
        let block = scramble(network, 16, self.seed) as u32;
        let within = scramble(address / NETWORKS, 16, network) as u32;
        // Most addresses of a network are in its region, some are elsewhere, and a few are in any small place.
        let region = match random.below(100) {
            0..88 => self.network_regions[network as usize],
            88..98 => self.regions.draw(&mut random),
            _ => random.below(REGIONS as u64) as usize,
        };
        Place {
            ip: (block << 16 | within) as i32,
            network: block as i32 * 61,
            // 9,041 is prime, so the multiples of 2,237 give every region a number of its own.
            region: ((region as i32 + 1) * 2_237) % 9_041,
            time_zone: random.pick(match region % 16 {
                0..10 => &[(1, 240)],
                10..13 => &[(1, 180)],
                13 => &[(1, 360)],
                14 => &[(1, 120)],
                _ => &[(2, 420), (1, 300), (1, 480), (1, 660)],
            }),
        }
    }
}

/// The place of an address.
struct Place {
    ip: i32,
    network: i32,
    region: i32,
    time_zone: i16,
}

/// `UserID` of a visitor: distinct and without a visible order.
pub(crate) fn user_id(seed: u64, number: u64) -> i64 {
    if number == KNOWN_VISITOR { KNOWN_USER_ID } else { (mix(number ^ mix(seed)) >> 1) as i64 }
}

fn phones() -> Vec<(i16, String)> {
    let series = [
        (1, "iPhone "),
        (7, "GT-"),
        (1, "iPad "),
        (5, "Lumia "),
        (6, "Nokia "),
        (10, "LT"),
        (3, "Desire "),
        (12, "LG-E"),
        (2, "BlackBerry "),
        (26, "IQ"),
        (34, "XT"),
        (11, "A"),
    ];
    (0..PHONE_MODELS)
        .map(|model| {
            let (vendor, series) = series[model % series.len()];
            (vendor, format!("{series}{}", scramble(model as u64, 12, 0)))
        })
        .collect()
}

fn draw_mobile(random: &mut Random) -> (i16, i16) {
    (random.pick(&[(50, 91), (30, 113), (12, 92), (8, 109)]), random.pick(&[(45, 70), (30, 78), (15, 42), (10, 83)]))
}

fn draw_desktop(random: &mut Random) -> (i16, i16) {
    let os =
        &[(440, 44), (270, 2), (90, 159), (60, 42), (40, 107), (30, 15), (20, 62), (10, 1), (5, 33), (3, 64), (2, 7)];
    let browser = &[(300, 3), (230, 5), (160, 4), (150, 7), (90, 82), (40, 6), (20, 32), (6, 55), (4, 13), (2, 9)];
    (random.pick(os), random.pick(browser))
}

fn draw_browser_major(random: &mut Random, browser: i16) -> i16 {
    match browser {
        7 => random.pick(&[(35, 9), (30, 10), (25, 8), (8, 7), (2, 6)]),
        5 | 82 => random.pick(&[(55, 28), (22, 27), (8, 26), (6, 25), (5, 23), (4, 21)]),
        3 => random.pick(&[(60, 22), (18, 21), (8, 20), (6, 19), (4, 16), (4, 3)]),
        _ => random.pick(&[(50, 12), (20, 11), (15, 15), (10, 6), (5, 0)]),
    }
}

const BROWSER_MINORS: &[(u32, &str)] =
    &[(60, "0"), (12, "1"), (9, "16"), (7, "15"), (5, "D"), (3, "6"), (2, "nA"), (1, "64"), (1, "10")];

const FLASH: &[(u32, (i16, i16, &str))] = &[
    (38, (11, 7, "700")),
    (18, (11, 8, "800")),
    (12, (11, 6, "602")),
    (9, (11, 5, "502")),
    (7, (10, 3, "183")),
    (5, (11, 4, "402")),
    (4, (11, 3, "300")),
    (3, (10, 1, "102")),
    (2, (9, 0, "124")),
    (12, (0, 0, "")),
];

/// The four numbers of a Silverlight version.
type Silverlight = (i16, i16, i32, i16);

const SILVERLIGHT: &[(u32, Silverlight)] = &[
    (58, (0, 0, 0, 0)),
    (22, (5, 1, 20_125, 0)),
    (9, (5, 1, 20_513, 0)),
    (5, (5, 1, 10_411, 0)),
    (3, (4, 1, 10_329, 0)),
    (3, (4, 0, 60_831, 0)),
];

const SCREENS: &[(u32, (i16, i16))] = &[
    (220, (1_366, 768)),
    (180, (1_280, 1_024)),
    (160, (1_920, 1_080)),
    (80, (1_280, 800)),
    (75, (1_600, 900)),
    (70, (1_024, 768)),
    (65, (1_680, 1_050)),
    (60, (1_440, 900)),
    (25, (1_920, 1_200)),
    (25, (1_024, 600)),
    (18, (1_360, 768)),
    (15, (1_152, 864)),
    (10, (2_560, 1_440)),
    (8, (1_600, 1_200)),
    (5, (1_280, 960)),
    (3, (800, 600)),
];

const SMALL_SCREENS: &[(u32, (i16, i16))] = &[
    (30, (320, 480)),
    (24, (768, 1_024)),
    (14, (320, 568)),
    (12, (480, 800)),
    (8, (720, 1_280)),
    (6, (540, 960)),
    (4, (240, 320)),
    (2, (800, 1_280)),
];

fn draw_screen(random: &mut Random) -> (i16, i16, i16) {
    let (width, height) = match random.chance(0.97) {
        true => random.pick(SCREENS),
        false => (800 + random.skewed(2_400) as i16, 600 + random.skewed(900) as i16),
    };
    (width, height, random.pick(&[(70, 24), (27, 32), (3, 16)]))
}

fn draw_small_screen(random: &mut Random) -> (i16, i16, i16) {
    let (width, height) = random.pick(SMALL_SCREENS);
    (width, height, random.pick(&[(80, 32), (15, 24), (5, 16)]))
}

fn draw_clock_error(random: &mut Random) -> i32 {
    let size = match random.below(20) {
        0..12 => random.skewed(20),
        12..18 => random.skewed(600),
        _ => random.skewed(90_000),
    };
    if random.chance(0.5) { size as i32 } else { -(size as i32) }
}

/// A set of interests, one bit each.
fn draw_interests(random: &mut Random) -> i16 {
    match random.below(10) {
        0..5 => 0,
        _ => (0..1 + random.below(4)).fold(0, |set, _| set | 1 << random.mildly_skewed(15)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_visitor_is_the_same_whenever_it_is_computed() {
        let visitors = Visitors::new(1, 1_000_000);
        let (one, again) = (visitors.get(77), visitors.get(77));
        assert_eq!((one.user_id, one.client_ip, one.width), (again.user_id, again.client_ip, again.width));
        assert_eq!(visitors.get(KNOWN_VISITOR).user_id, KNOWN_USER_ID);
    }

    #[test]
    fn phone_models_are_distinct() {
        let names: HashSet<String> = phones().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), PHONE_MODELS);
    }

    #[test]
    fn addresses_do_not_collide() {
        let visitors = Visitors::new(1, 1_000_000);
        let ips: HashSet<i32> = (0..50_000).map(|address| visitors.place(address).ip).collect();
        assert_eq!(ips.len(), 50_000);
    }
}
