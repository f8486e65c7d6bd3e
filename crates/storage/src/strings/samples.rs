//! Makes strings like those of a web-analytics table, for tests and measurements.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SYLLABLES: &[&str] = &[
    "ko", "mar", "tel", "in", "sto", "ra", "vi", "dom", "bel", "no", "ska", "li", "per", "gor", "ta", "zen", "mo",
    "auto", "shop", "foto",
];

const WORDS: &[&str] = &[
    "купить",
    "в",
    "москве",
    "цена",
    "отзывы",
    "скачать",
    "бесплатно",
    "и",
    "на",
    "фото",
    "видео",
    "онлайн",
    "смотреть",
    "квартира",
    "санкт-петербург",
    "ремонт",
    "автомобиля",
    "рецепты",
    "погода",
    "работа",
    "объявления",
    "каталог",
    "товаров",
    "интернет-магазин",
    "доставка",
    "ребёнка",
    "лечение",
    "форум",
    "новости",
    "сегодня",
    "расписание",
    "поездов",
    "игры",
    "для",
    "девочек",
    "мебель",
    "кухни",
    "недорого",
    "продажа",
    "аренда",
    "2013",
    "iphone",
    "samsung",
];

/// A number below `limit`. Small numbers are much more frequent.
fn skewed(random: &mut SmallRng, limit: usize) -> usize {
    let share: f64 = random.random();
    (((limit as f64).powf(share) - 1.0) as usize).min(limit - 1)
}

fn word(number: usize) -> String {
    let mut rest = number + SYLLABLES.len();
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
    word
}

fn phrase(random: &mut SmallRng, words: usize) -> String {
    let words: Vec<String> = (0..words)
        .map(|_| match random.random_ratio(1, 4) {
            true => word(skewed(random, 20_000)),
            false => WORDS[skewed(random, WORDS.len())].to_string(),
        })
        .collect();
    words.join(" ")
}

/// Makes `rows` page addresses in sessions. About 60 % of them are distinct.
pub(super) fn urls(rows: usize) -> Vec<String> {
    let mut random = SmallRng::seed_from_u64(1);
    let mut pages: Vec<String> = Vec::new();
    (0..rows)
        .map(|_| {
            if !pages.is_empty() && random.random_ratio(4, 10) {
                let back = skewed(&mut random, pages.len());
                return pages[pages.len() - 1 - back].clone();
            }
            let host = skewed(&mut random, 6_000);
            let mut url = format!("http://{}.{}/", word(host * 7), ["ru", "com", "ua", "net"][host % 4]);
            for _ in 0..random.random_range(1..4) {
                url.push_str(&word(skewed(&mut random, 3_000)));
                url.push('/');
            }
            for key in 0..random.random_range(0..4) {
                url.push(if key == 0 { '?' } else { '&' });
                url.push_str(["id", "page", "text", "ref", "sid"][skewed(&mut random, 5)]);
                let value = skewed(&mut random, 100_000_000);
                url.push_str(&format!("={value}"));
            }
            pages.push(url.clone());
            url
        })
        .collect()
}

/// Makes `rows` page titles, mostly Cyrillic. About 40 % of them are distinct.
pub(super) fn titles(rows: usize) -> Vec<String> {
    let mut random = SmallRng::seed_from_u64(2);
    let mut titles: Vec<String> = Vec::new();
    (0..rows)
        .map(|_| {
            if !titles.is_empty() && random.random_ratio(6, 10) {
                return titles[skewed(&mut random, titles.len())].clone();
            }
            let words = random.random_range(3..9);
            let title = format!("{} - {}", phrase(&mut random, words), word(skewed(&mut random, 3_000)));
            titles.push(title.clone());
            title
        })
        .collect()
}

/// Makes `rows` search phrases, 87 % of them empty.
pub(super) fn search_phrases(rows: usize) -> Vec<String> {
    let mut random = SmallRng::seed_from_u64(3);
    (0..rows)
        .map(|_| match random.random_ratio(87, 100) {
            true => String::new(),
            false => {
                let words = random.random_range(2..6);
                phrase(&mut random, words)
            }
        })
        .collect()
}

/// Makes `rows` random numbers of 32 hexadecimal digits, all distinct.
pub(super) fn tokens(rows: usize) -> Vec<String> {
    let mut random = SmallRng::seed_from_u64(4);
    (0..rows).map(|_| format!("{:032x}", random.random::<u128>())).collect()
}
