//! The vocabulary of titles, searches and addresses.
//!
//! This is a language of its own, made like Russian: stems take prefixes and endings, short particles come in front,
//! and the k-th word occurs with a share of about k^(-2/3). So strings repeat in pieces, as real text does. They are
//! neither noise that no encoding can shrink, nor a pattern that every encoding sees through. Each word also has a form
//! in Latin letters, which addresses use.

use super::random::{Random, scramble};

/// The number of words besides the particles.
const WORDS: usize = 1 << 14;

const PARTICLES: &[&str] = &[
    "и", "в", "на", "для", "с", "как", "по", "не", "от", "из", "без", "о", "за", "что", "до", "или", "под", "все",
    "где", "при",
];

const PREFIXES: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "по",
    "за",
    "вы",
    "на",
    "пере",
    "под",
    "при",
    "раз",
    "не",
    "от",
    "авто",
    "кино",
    "супер",
    "мини",
];

const STEMS: &[&str] = &[
    "дом",
    "город",
    "книг",
    "игр",
    "рыб",
    "цен",
    "лес",
    "мор",
    "рек",
    "снег",
    "вод",
    "хлеб",
    "стол",
    "окн",
    "двер",
    "гор",
    "пол",
    "сад",
    "цвет",
    "трав",
    "ветер",
    "свет",
    "звезд",
    "лун",
    "солн",
    "облак",
    "дожд",
    "гроз",
    "зим",
    "весн",
    "лет",
    "осен",
    "утр",
    "вечер",
    "ноч",
    "день",
    "год",
    "век",
    "врем",
    "час",
    "минут",
    "работ",
    "труд",
    "дел",
    "служб",
    "завод",
    "фабрик",
    "магазин",
    "рынок",
    "банк",
    "кредит",
    "деньг",
    "рубл",
    "зарплат",
    "прода",
    "купл",
    "торг",
    "склад",
    "груз",
    "поезд",
    "вокзал",
    "самолет",
    "машин",
    "мотор",
    "колес",
    "дорог",
    "мост",
    "улиц",
    "площад",
    "парк",
    "музе",
    "театр",
    "концерт",
    "музык",
    "песн",
    "танц",
    "голос",
    "звук",
    "слов",
    "язык",
    "букв",
    "письм",
    "газет",
    "журнал",
    "новост",
    "сери",
    "фильм",
    "актер",
    "экран",
    "камер",
    "фото",
    "картин",
    "краск",
    "рисун",
    "лини",
    "форм",
    "мод",
    "плать",
    "костюм",
    "обув",
    "сапог",
    "шапк",
    "сумк",
    "кольц",
    "золот",
    "серебр",
    "камен",
    "желез",
    "стекл",
    "дерев",
    "бумаг",
    "пластик",
    "ремонт",
    "строй",
    "мебел",
    "диван",
    "кроват",
    "кухн",
    "ванн",
    "плит",
    "труб",
    "насос",
    "котел",
    "тепл",
    "холод",
    "лед",
    "огон",
    "дым",
    "рецепт",
    "салат",
    "суп",
    "пирог",
    "торт",
    "мяс",
    "куриц",
    "молок",
    "сыр",
    "масл",
    "сахар",
    "сол",
    "чай",
    "кофе",
    "сок",
    "фрукт",
    "яблок",
    "груш",
    "виноград",
    "овощ",
    "картоф",
    "морков",
    "гриб",
    "орех",
    "ягод",
    "здоров",
    "врач",
    "больниц",
    "аптек",
    "лекарств",
    "витамин",
    "зуб",
    "глаз",
    "рук",
    "ног",
    "голов",
    "сердц",
    "кров",
    "кож",
    "волос",
    "сон",
    "отдых",
    "спорт",
    "футбол",
    "хоккей",
    "теннис",
    "бег",
    "плав",
    "борьб",
    "команд",
    "матч",
    "гол",
    "турнир",
    "чемпион",
    "школ",
    "урок",
    "учител",
    "студент",
    "экзамен",
    "знан",
    "наук",
    "физик",
    "хими",
    "истори",
    "закон",
    "суд",
    "прав",
    "документ",
    "паспорт",
    "адрес",
    "телефон",
    "связ",
    "сеть",
    "компьютер",
    "програм",
    "файл",
    "диск",
    "клавиш",
    "принтер",
    "планшет",
    "батаре",
    "ламп",
    "провод",
    "сигнал",
    "радио",
    "канал",
    "сайт",
    "форум",
    "блог",
    "чат",
    "друг",
    "подруг",
    "семь",
    "мам",
    "пап",
    "сын",
    "доч",
    "брат",
    "сестр",
    "дет",
    "бабушк",
    "любов",
    "свадьб",
    "праздник",
    "подар",
    "сюрприз",
    "шутк",
    "смех",
    "радост",
    "мечт",
    "тайн",
    "сказк",
    "геро",
    "воин",
    "корол",
    "замок",
    "меч",
    "дракон",
    "маг",
    "остров",
    "океан",
    "берег",
    "пляж",
    "отел",
    "тур",
    "виз",
    "билет",
    "рейс",
    "багаж",
    "карт",
    "маршрут",
    "собак",
    "кошк",
    "птиц",
    "лошад",
    "коров",
    "медвед",
    "волк",
    "лис",
    "зайц",
    "тигр",
    "слон",
    "змей",
    "пчел",
];

const ENDINGS: &[&str] = &[
    "",
    "а",
    "ы",
    "и",
    "у",
    "ом",
    "ов",
    "ам",
    "ный",
    "ная",
    "ное",
    "ные",
    "ка",
    "ки",
    "ку",
    "ник",
    "ики",
    "ский",
    "ская",
    "ские",
    "овать",
    "ить",
    "ение",
    "ения",
    "ость",
    "ости",
    "ок",
    "очка",
    "ушка",
    "ами",
    "ить",
    "ует",
    "или",
    "ого",
    "овой",
    "ция",
    "арь",
    "ист",
    "ину",
    "ером",
];

/// The words in both alphabets, the most common first.
pub(crate) struct Words {
    cyrillic: Vec<String>,
    latin: Vec<String>,
}

impl Words {
    pub(crate) fn new() -> Words {
        let mut cyrillic: Vec<String> = PARTICLES.iter().map(|&word| word.to_owned()).collect();
        let mut seen = std::collections::HashSet::new();
        let mut number = 0;
        // The product of stems, prefixes and endings is larger than the wanted number, so the loop ends.
        while cyrillic.len() < PARTICLES.len() + WORDS {
            // We take every combination once, in an order that mixes them. If two have the same spelling, we keep the
            // first.
            let at = scramble(number, 18, 0) as usize;
            let stem = STEMS[at % STEMS.len()];
            let prefix = PREFIXES[at / STEMS.len() % PREFIXES.len()];
            let ending = ENDINGS[at / (STEMS.len() * PREFIXES.len()) % ENDINGS.len()];
            let word = format!("{prefix}{stem}{ending}");
            if seen.insert(word.clone()) {
                cyrillic.push(word);
            }
            number += 1;
        }
        let latin = cyrillic.iter().map(|word| word.chars().map(latin_letter).collect()).collect();
        Words { cyrillic, latin }
    }

    /// Draws the number of any word, particles included. Common words come more often.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        random.skewed(self.cyrillic.len() as u64) as usize
    }

    /// Draws the number of a word that can be used alone.
    #[inline]
    pub(crate) fn draw_noun(&self, random: &mut Random) -> usize {
        PARTICLES.len() + random.skewed(WORDS as u64) as usize
    }

    pub(crate) fn cyrillic(&self, number: usize) -> &str {
        &self.cyrillic[number]
    }

    pub(crate) fn latin(&self, number: usize) -> &str {
        &self.latin[number]
    }
}

/// Appends `word` with a capital first letter.
pub(crate) fn push_capital(out: &mut String, word: &str) {
    let mut letters = word.chars();
    out.extend(letters.next().into_iter().flat_map(char::to_uppercase));
    out.push_str(letters.as_str());
}

fn latin_letter(letter: char) -> &'static str {
    match letter {
        'а' => "a",
        'б' => "b",
        'в' => "v",
        'г' => "g",
        'д' => "d",
        'е' | 'э' => "e",
        'ж' => "zh",
        'з' => "z",
        'и' => "i",
        'й' => "j",
        'к' => "k",
        'л' => "l",
        'м' => "m",
        'н' => "n",
        'о' => "o",
        'п' => "p",
        'р' => "r",
        'с' => "s",
        'т' => "t",
        'у' => "u",
        'ф' => "f",
        'х' => "h",
        'ц' => "c",
        'ч' => "ch",
        'ш' => "sh",
        'щ' => "sch",
        'ы' => "y",
        'ю' => "yu",
        'я' => "ya",
        // The signs ь and ъ have no sound.
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_have_latin_forms() {
        let words = Words::new();
        let all: std::collections::HashSet<_> = words.cyrillic.iter().collect();
        assert!(all.len() > WORDS);
        assert!(words.latin.iter().all(|word| !word.is_empty() && word.is_ascii()));
        assert!(!words.latin.iter().any(|word| word.contains("google")));
    }

    #[test]
    fn a_pushed_capital_starts_the_word() {
        let mut out = String::new();
        push_capital(&mut out, "дом");
        assert_eq!(out, "Дом");
    }
}
