//! Advertising campaigns: marks in a few landing addresses, in columns that are empty almost everywhere.

use super::random::Random;

/// The marks of one campaign.
pub(crate) struct Campaign {
    pub(crate) utm_source: &'static str,
    pub(crate) utm_medium: &'static str,
    pub(crate) utm_campaign: &'static str,
    pub(crate) utm_content: &'static str,
    pub(crate) utm_term: &'static str,
    pub(crate) openstat_service: &'static str,
    pub(crate) openstat_campaign: &'static str,
    pub(crate) openstat_ad: &'static str,
    pub(crate) openstat_source: &'static str,
    pub(crate) from_tag: &'static str,
    pub(crate) has_click_id: i16,
    pub(crate) list: i32,
}

/// The marks of a session without a campaign.
pub(crate) static NONE: Campaign = Campaign {
    utm_source: "",
    utm_medium: "",
    utm_campaign: "",
    utm_content: "",
    utm_term: "",
    openstat_service: "",
    openstat_campaign: "",
    openstat_ad: "",
    openstat_source: "",
    from_tag: "",
    has_click_id: 0,
    list: 0,
};

static CAMPAIGNS: [Campaign; 7] = [
    Campaign { utm_source: "direct", utm_medium: "cpc", utm_campaign: "leto_2013", utm_term: "otdyh", ..NONE },
    Campaign { utm_source: "direct", utm_medium: "cpc", utm_campaign: "rasprodazha", utm_content: "banner_2", ..NONE },
    Campaign { utm_source: "mailing", utm_medium: "email", utm_campaign: "nedelya_28", ..NONE },
    Campaign { utm_source: "partner", utm_medium: "banner", utm_campaign: "brand", utm_content: "240x400", ..NONE },
    Campaign { has_click_id: 1, ..NONE },
    Campaign {
        openstat_service: "direct",
        openstat_campaign: "4711",
        openstat_ad: "81244",
        openstat_source: "",
        ..NONE
    },
    Campaign { from_tag: "rss", list: 100_007, ..NONE },
];

impl Campaign {
    /// Draws the campaign of a session. Most sessions have none.
    pub(crate) fn draw(random: &mut Random) -> &'static Campaign {
        match random.chance(0.015) {
            true => &CAMPAIGNS[random.mildly_skewed(CAMPAIGNS.len() as u64) as usize],
            false => &NONE,
        }
    }
}
