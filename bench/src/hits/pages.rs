//! Pages: the address and the title of a page are functions of (site, page number).
//!
//! Neighbouring pages share a title, like the parts of one topic. Addresses contain words of the title in Latin
//! letters. The number in an address must be unique within its site. A small share of addresses and titles mention
//! Google. They always belong to rare pages, so that this share varies little between seeds and sizes.

use std::fmt::Write as _;

use super::random::{Random, Stream, mix, scramble};
use super::sites::{KNOWN_COUNTER, Site, Style};
use super::words::{Words, push_capital};

/// The number of titles of a site for each of its pages.
const TITLES_PER_PAGE: f64 = 0.485;
/// The share of rare pages whose address contains `google`.
const GOOGLE_ADDRESSES: f64 = 0.00034;
/// The share of rare titles that contain `Google`.
const GOOGLE_TITLES: f64 = 0.0012;
/// Pages from number `pages / RARE` on are rare: together they get about half of the views.
const RARE: u64 = 8;

/// The hash of the known counter's home page. Queries ask for it.
const KNOWN_HOME_HASH: i64 = 2_868_770_270_353_813_622;
/// The hash of its second page. Queries ask for it as a referer.
const KNOWN_REFERER_HASH: i64 = 3_594_120_000_172_545_465;

/// The words of a title, by number. The addresses of its pages contain the first few of them.
struct Topic {
    words: [usize; 8],
    len: usize,
    google: bool,
    random: Random,
}

impl Topic {
    fn new(seed: u64, site: &Site, page: u64, words: &Words) -> Topic {
        // Several neighbouring pages map to the same number, so that they share a title.
        let title = (page as f64 * TITLES_PER_PAGE) as u64;
        let mut random = Random::new(seed, Stream::Title, key(site, title));
        let mut topic = Topic { words: [0; 8], len: 2 + random.below(4) as usize, google: false, random };
        for at in 0..topic.len {
            topic.words[at] = if at == 0 { words.draw_noun(&mut topic.random) } else { words.draw(&mut topic.random) };
        }
        // We always draw, so that the stream does not depend on whether the page is rare.
        topic.google = topic.random.chance(GOOGLE_TITLES) && is_rare(site, page);
        topic
    }
}

fn is_rare(site: &Site, page: u64) -> bool {
    page >= (site.pages / RARE).max(1)
}

fn key(site: &Site, number: u64) -> u64 {
    ((site.number as u64) << 44) | number
}

/// Appends the title of a page.
pub(crate) fn write_title(out: &mut String, seed: u64, site: &Site, page: u64, words: &Words) {
    if !site.has_titles {
        return;
    }
    if page == 0 {
        out.push_str(&site.name);
        return;
    }
    let mut topic = Topic::new(seed, site, page, words);
    push_capital(out, words.cyrillic(topic.words[0]));
    for &word in &topic.words[1..topic.len] {
        out.push_str(topic.random.pick(&[(20, " "), (2, ", "), (1, " - "), (1, ": ")]));
        out.push_str(words.cyrillic(word));
    }
    if topic.google {
        out.push_str(" в Google");
    }
    match site.style {
        Style::Shop => _ = write!(out, " - купить, цена {} руб.", 100 + topic.random.skewed(9_000) * 10),
        Style::Search => _ = write!(out, ": {} объявлений", topic.random.skewed(20_000)),
        Style::Forum => _ = write!(out, " - Страница {}", 1 + topic.random.skewed(40)),
        Style::News | Style::Social | Style::Anchors => {}
    }
    out.push_str(" | ");
    out.push_str(&site.name);
}

/// Appends the address of a page.
pub(crate) fn write_address(out: &mut String, seed: u64, site: &Site, page: u64, words: &Words) {
    let mut random = Random::new(seed, Stream::Page, key(site, page));
    let random = &mut random;
    let start = out.len();
    let google = random.chance(GOOGLE_ADDRESSES) && is_rare(site, page);
    let by_google = google && random.chance(0.5);
    out.push_str(if by_google { "http://translate.google.ru/translate?hl=ru&u=http://" } else { "http://" });
    out.push_str(&site.host);
    out.push('/');
    if page == 0 {
        return;
    }
    let number = 1 + scramble(page, site.page_bits, site.number as u64);
    let section = words.latin(random.any(&site.sections));
    // Writing to a String cannot fail.
    _ = match site.style {
        Style::News => {
            let (month, day) = (1 + random.below(7), 1 + random.below(28));
            _ = write!(out, "{section}/2013/{month:02}/{day:02}/");
            write_slug(out, seed, site, page, words);
            write!(out, "_{number}.html")
        }
        Style::Shop => {
            _ = write!(out, "catalog/{section}/");
            write_slug(out, seed, site, page, words);
            _ = write!(out, "/{number}/");
            match random.below(8) {
                0 => write!(out, "?page={}", 1 + random.skewed(60)),
                1 => write!(out, "?sort=price&order=asc&page={}", 1 + random.skewed(20)),
                _ => Ok(()),
            }
        }
        Style::Forum => {
            _ = write!(out, "forum/viewtopic.php?f={}&t={number}", random.skewed(80));
            match random.below(3) {
                0 => Ok(()),
                1 => write!(out, "&start={}", random.skewed(50) * 20),
                _ => write!(out, "&p={}#{}", number * 7 + random.below(7), section),
            }
        }
        Style::Search => write_search(out, random, section, number, words),
        Style::Social => {
            let place = random.any(&["users", "groups", "photos", "notes", "video"]);
            _ = write!(out, "{place}/{section}/{number}");
            match random.below(4) {
                0 => write!(out, "?from=feed&owner={}", random.skewed(1 << 20)),
                1 => write!(out, "/{}", words.latin(words.draw_noun(random))),
                _ => Ok(()),
            }
        }
        Style::Anchors => {
            _ = write!(out, "#!/{section}/");
            write_slug(out, seed, site, page, words);
            write!(out, "/{number}")
        }
    };
    let has_parameters = out[start..].contains('?');
    let sign = if has_parameters { '&' } else { '?' };
    if google && !by_google {
        _ = write!(out, "{sign}from=google");
    } else if random.chance(0.6) {
        let name = random.any(&["ref", "sid", "pid", "cat", "lot", "back", "v", "list_id"]);
        _ = write!(out, "{sign}{name}={}", 1_000 + random.mildly_skewed(4_000_000_000));
    }
}

fn write_slug(out: &mut String, seed: u64, site: &Site, page: u64, words: &Words) {
    let topic = Topic::new(seed, site, page, words);
    for (at, &word) in topic.words[..topic.len.min(4)].iter().enumerate() {
        if at > 0 {
            out.push('-');
        }
        out.push_str(words.latin(word));
    }
}

fn write_search(out: &mut String, random: &mut Random, section: &str, number: u64, words: &Words) -> std::fmt::Result {
    let names = ["price_min", "price_max", "region", "type", "year", "color", "with_photo", "state", "period", "brand"];
    write!(out, "{section}/search/?id={number}")?;
    for name in &names[random.below(4) as usize..3 + random.below(8) as usize] {
        match random.below(3) {
            0 => write!(out, "&{name}={}", random.skewed(100_000))?,
            1 => write!(out, "&{name}={}", words.latin(words.draw_noun(random)))?,
            _ => write!(out, "&{name}=")?,
        }
    }
    Ok(())
}

/// Appends the address of a file that a page offers for download.
pub(crate) fn write_download(out: &mut String, seed: u64, site: &Site, page: u64, words: &Words) {
    _ = write!(out, "http://{}/files/", site.host);
    write_slug(out, seed, site, page, words);
    _ = write!(
        out,
        "_{}.{}",
        scramble(page, site.page_bits, site.number as u64),
        ["zip", "pdf", "doc"][page as usize % 3]
    );
}

/// Returns the hash of an address, or zero if it is empty.
pub(crate) fn address_hash(address: &str) -> i64 {
    let mut hash = address.len() as u64;
    for piece in address.as_bytes().chunks(8) {
        let mut bytes = [0; 8];
        bytes[..piece.len()].copy_from_slice(piece);
        hash = mix(hash ^ u64::from_le_bytes(bytes));
    }
    if address.is_empty() { 0 } else { hash as i64 }
}

/// Returns the hash of a page's address. The two pages that queries ask for by hash must have these hashes.
pub(crate) fn page_hash(site: &Site, page: u64, address: &str) -> i64 {
    match (site.counter_id, page) {
        (KNOWN_COUNTER, 0) => KNOWN_HOME_HASH,
        (KNOWN_COUNTER, 1) => KNOWN_REFERER_HASH,
        _ => address_hash(address),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::sites::Sites;
    use super::*;

    #[test]
    fn addresses_are_distinct_and_titles_are_shared() {
        let words = Words::new();
        let sites = Sites::new(1, 1_000_000, &words);
        for number in 0..40 {
            let site = sites.get(number);
            let (mut addresses, mut titles) = (HashSet::new(), HashSet::new());
            for page in 0..500.min(site.pages) {
                let (mut address, mut title) = (String::new(), String::new());
                write_address(&mut address, 1, site, page, &words);
                write_title(&mut title, 1, site, page, &words);
                assert!(address.starts_with("http://"));
                assert!(addresses.insert(address));
                titles.insert(title);
            }
            assert!(titles.len() < addresses.len() / 2 + 2);
        }
    }

    #[test]
    fn hashes_depend_on_every_byte() {
        assert_ne!(address_hash("http://a.ru/"), address_hash("http://b.ru/"));
        assert_ne!(address_hash("http://a.ru/"), address_hash("http://a.ru/\0"));
        assert_eq!(address_hash(""), 0);
    }
}
