//! The sites whose pages are counted, one per `CounterID`.
//!
//! A few sites have most of the rows. Each site has a host, a name at the end of its titles, a style of addresses, and
//! a pool of pages in proportion to its traffic, so that the share of distinct addresses does not depend on the
//! size of the table.

use super::random::{Random, Stream, Zipf, scramble};
use super::words::{Words, push_capital};

/// The number of sites in the table.
pub(crate) const SITES: usize = 6_506;

/// The counter that some queries ask for, and its share of all rows.
pub(crate) const KNOWN_COUNTER: i32 = 62;
const KNOWN_SHARE: f64 = 0.0074;
/// Its index among the sites, which are ordered by traffic.
const KNOWN_SITE: usize = 24;

/// The pages of a site for each row that we expect it to get.
const PAGES_PER_ROW: f64 = 0.21;

/// The style of a site's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    News,
    Shop,
    Forum,
    Search,
    Social,
    Anchors,
}

/// A counted site.
pub(crate) struct Site {
    pub(crate) number: usize,
    pub(crate) counter_id: i32,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) style: Style,
    /// The words that name the parts of the site.
    pub(crate) sections: Vec<usize>,
    /// Pages are numbered 0..pages; page 0 is the home page.
    pub(crate) pages: u64,
    /// The bits of the numbers in its addresses.
    pub(crate) page_bits: u32,
    /// The share of page views that go directly to the home page.
    pub(crate) home_share: f64,
    pub(crate) has_titles: bool,
    /// Whether the site rewrites its addresses and also reports the original ones.
    pub(crate) rewrites: bool,
    pub(crate) class: i16,
    pub(crate) category: i16,
    pub(crate) region: i32,
    pub(crate) charset: &'static str,
    pub(crate) code_version: i32,
    pub(crate) hit_color: &'static str,
}

/// All sites, the most visited first.
pub(crate) struct Sites {
    all: Vec<Site>,
    shares: Zipf,
}

impl Sites {
    pub(crate) fn new(seed: u64, rows: u64, words: &Words) -> Sites {
        let shares = shares();
        let all = shares.iter().enumerate().map(|(number, share)| Site::new(seed, number, share * rows as f64, words));
        Sites { all: all.collect(), shares: Zipf::of_weights(shares.iter().copied()) }
    }

    /// Draws a site by traffic.
    pub(crate) fn draw(&self, random: &mut Random) -> &Site {
        &self.all[self.shares.draw(random)]
    }

    pub(crate) fn get(&self, number: usize) -> &Site {
        &self.all[number]
    }
}

/// Returns the share of each site: (k + 6)^(-3/2), except for the known counter, which must have exactly its known
/// share.
fn shares() -> Vec<f64> {
    let mut weights: Vec<f64> = (0..SITES)
        .map(|k| {
            let x = k as f64 + 6.0;
            1.0 / (x * x.sqrt())
        })
        .collect();
    // We first scale the other sites to the remaining share, and then set the known site's share.
    weights[KNOWN_SITE] = 0.0;
    let rest: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight *= (1.0 - KNOWN_SHARE) / rest);
    weights[KNOWN_SITE] = KNOWN_SHARE;
    weights
}

impl Site {
    fn new(seed: u64, number: usize, rows: f64, words: &Words) -> Site {
        let mut random = Random::new(seed, Stream::Site, number as u64);
        let random = &mut random;
        let known = number == KNOWN_SITE;
        let style = random.pick(&[
            (26, Style::News),
            (24, Style::Shop),
            (16, Style::Forum),
            (10, Style::Search),
            (16, Style::Social),
            (8, Style::Anchors),
        ]);
        let pages = ((rows * PAGES_PER_ROW) as u64).max(2);
        Site {
            number,
            // The order of counters must not reveal their traffic.
            counter_id: if known { KNOWN_COUNTER } else { 100 + scramble(number as u64, 18, seed) as i32 },
            host: host(random, number, words),
            name: name(random, words),
            style: if known { Style::News } else { style },
            sections: (0..6 + random.below(24)).map(|_| words.draw_noun(random)).collect(),
            pages,
            // The numbers of uncounted pages must fit too, so we add two bits.
            page_bits: (u64::BITS - pages.leading_zeros() + 2).max(12),
            home_share: if known { 0.36 } else { random.any(&[0.01, 0.03, 0.05, 0.08, 0.12]) },
            has_titles: known || number < 3 || random.chance(0.94),
            rewrites: !known && number > 12 && random.chance(0.14),
            class: random.pick(&[(90, 0), (6, 1), (4, -1)]),
            category: random.pick(&[(55, 0), (15, 9_911), (10, 16_000), (8, 15_014), (7, 12_500), (5, 10_813)]),
            region: random.pick(&[(60, 0), (20, 229), (12, 839), (8, 32)]),
            charset: random.pick(&[(55, "windows-1251;charset"), (43, "utf-8"), (1, "koi8-r"), (1, "")]),
            code_version: random.pick(&[(40, 1_601), (25, 291), (15, 158), (10, 1_481), (6, 105), (4, 879)]),
            hit_color: random.pick(&[(60, "5"), (20, "1"), (12, "E"), (5, "D"), (3, "g")]),
        }
    }
}

fn host(random: &mut Random, number: usize, words: &Words) -> String {
    let top = random.pick(&[(70, "ru"), (8, "com"), (7, "ua"), (5, "net"), (4, "by"), (3, "kz"), (3, "org")]);
    let first = words.latin(words.draw_noun(random));
    let www = if random.chance(0.25) { "www." } else { "" };
    match random.below(3) {
        0 => format!("{www}{first}{number}.{top}"),
        1 => format!("{www}{first}-{}{}.{top}", words.latin(words.draw_noun(random)), number % 100),
        _ => format!("{}.{first}{}.{top}", words.latin(words.draw_noun(random)), number % 1_000),
    }
}

fn name(random: &mut Random, words: &Words) -> String {
    let mut name = String::new();
    push_capital(&mut name, words.cyrillic(words.draw_noun(random)));
    for _ in 0..random.below(2) {
        name.push(' ');
        name.push_str(words.cyrillic(words.draw_noun(random)));
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn counters_and_hosts_are_distinct() {
        let sites = Sites::new(1, 1_000_000, &Words::new());
        let counters: HashSet<i32> = sites.all.iter().map(|site| site.counter_id).collect();
        assert_eq!(counters.len(), SITES);
        let hosts: HashSet<&str> = sites.all.iter().map(|site| site.host.as_str()).collect();
        assert!(hosts.len() > SITES - 20, "{}", hosts.len());
        assert_eq!(sites.get(KNOWN_SITE).counter_id, KNOWN_COUNTER);
    }

    #[test]
    fn shares_sum_to_one() {
        let sum: f64 = shares().iter().sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
