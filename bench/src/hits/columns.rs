//! The columns of the table, in order, each with the function that computes its value.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, StringBuilder, TimestampMicrosecondArray,
};

use super::World;
use super::campaigns::{Campaign, NONE};
use super::page_views::{Batch, Hit, Visit};
use super::sites::Site;
use super::visitors::Visitor;

/// A row with everything that it refers to.
struct Row<'a> {
    world: &'a World,
    batch: &'a Batch,
    hit: &'a Hit,
    visit: &'a Visit,
    visitor: &'a Visitor,
    site: &'a Site,
}

/// The function that reads a column's value from a row.
enum Value {
    Int16(fn(&Row<'_>) -> i16),
    Int32(fn(&Row<'_>) -> i32),
    Int64(fn(&Row<'_>) -> i64),
    /// Days since 1970.
    Date(fn(&Row<'_>) -> i32),
    /// Seconds since 1970.
    Time(fn(&Row<'_>) -> i64),
    Text(for<'a> fn(&Row<'a>) -> &'a str),
}

use Value::{Date, Int16, Int32, Int64, Text, Time};

/// 1 July 2013, in days since 1970.
const FIRST_DAY: i32 = 15_887;
/// The minutes by which the counting server's clock is ahead of UTC.
const SERVER_ZONE: i16 = 240;

impl<'a> Row<'a> {
    fn date(&self) -> i32 {
        FIRST_DAY + i32::from(self.visit.day)
    }

    fn time(&self) -> i64 {
        i64::from(self.date()) * 86_400 + i64::from(self.hit.second)
    }

    fn local_time(&self) -> i64 {
        self.time() + i64::from(self.visitor.time_zone - SERVER_ZONE) * 60
    }

    /// Returns the campaign of the session, whose marks are in the address on which the session began.
    fn campaign(&self) -> &'static Campaign {
        if self.hit.is_landing { self.visit.campaign } else { &NONE }
    }

    /// Returns true for one row in `n`, and always for the same rows.
    fn one_in(&self, n: i64) -> bool {
        self.hit.watch_id % n == 0
    }
}

const COLUMNS: [(&str, Value); 105] = [
    ("WatchID", Int64(|row| row.hit.watch_id)),
    ("JavaEnable", Int16(|row| row.visitor.java)),
    ("Title", Text(|row| row.batch.text(row.hit.title))),
    ("GoodEvent", Int16(|_| 1)),
    ("EventTime", Time(|row| row.time())),
    ("EventDate", Date(|row| row.date())),
    ("CounterID", Int32(|row| row.site.counter_id)),
    ("ClientIP", Int32(|row| row.visitor.client_ip)),
    ("RegionID", Int32(|row| row.visitor.region)),
    ("UserID", Int64(|row| row.visitor.user_id)),
    ("CounterClass", Int16(|row| row.site.class)),
    ("OS", Int16(|row| row.visitor.os)),
    ("UserAgent", Int16(|row| row.visitor.browser)),
    ("URL", Text(|row| row.batch.text(row.hit.url))),
    ("Referer", Text(|row| row.batch.text(row.hit.referer))),
    ("IsRefresh", Int16(|row| row.hit.is_refresh)),
    ("RefererCategoryID", Int16(|row| row.hit.referer_category)),
    ("RefererRegionID", Int32(|row| row.hit.referer_region)),
    ("URLCategoryID", Int16(|row| row.site.category)),
    ("URLRegionID", Int32(|row| row.site.region)),
    ("ResolutionWidth", Int16(|row| row.visitor.width)),
    ("ResolutionHeight", Int16(|row| row.visitor.height)),
    ("ResolutionDepth", Int16(|row| row.visitor.depth)),
    ("FlashMajor", Int16(|row| row.visitor.flash.0)),
    ("FlashMinor", Int16(|row| row.visitor.flash.1)),
    ("FlashMinor2", Text(|row| row.visitor.flash.2)),
    ("NetMajor", Int16(|row| row.visitor.net.0)),
    ("NetMinor", Int16(|row| row.visitor.net.1)),
    ("UserAgentMajor", Int16(|row| row.visitor.browser_major)),
    ("UserAgentMinor", Text(|row| row.visitor.browser_minor)),
    ("CookieEnable", Int16(|row| row.visitor.cookies)),
    ("JavascriptEnable", Int16(|row| row.visitor.javascript)),
    ("IsMobile", Int16(|row| row.visitor.is_mobile)),
    ("MobilePhone", Int16(|row| row.visitor.phone_vendor)),
    ("MobilePhoneModel", Text(|row| row.world.visitors.phone_name(row.visitor.phone_model))),
    ("Params", Text(|row| if row.one_in(900) { "{\"goal\":\"order\"}" } else { "" })),
    ("IPNetworkID", Int32(|row| row.visitor.network)),
    ("TraficSourceID", Int16(|row| row.hit.source)),
    ("SearchEngineID", Int16(|row| row.hit.search_engine)),
    ("SearchPhrase", Text(|row| row.batch.text(row.hit.search_phrase))),
    ("AdvEngineID", Int16(|row| row.hit.advertisement)),
    ("IsArtifical", Int16(|row| i16::from(row.one_in(400)))),
    ("WindowClientWidth", Int16(|row| row.visit.window.0)),
    ("WindowClientHeight", Int16(|row| row.visit.window.1)),
    ("ClientTimeZone", Int16(|row| row.visitor.time_zone)),
    ("ClientEventTime", Time(|row| row.local_time() + i64::from(row.visitor.clock_error))),
    ("SilverlightVersion1", Int16(|row| row.visitor.silverlight.0)),
    ("SilverlightVersion2", Int16(|row| row.visitor.silverlight.1)),
    ("SilverlightVersion3", Int32(|row| row.visitor.silverlight.2)),
    ("SilverlightVersion4", Int16(|row| row.visitor.silverlight.3)),
    ("PageCharset", Text(|row| row.site.charset)),
    ("CodeVersion", Int32(|row| row.site.code_version)),
    ("IsLink", Int16(|row| row.hit.is_link)),
    ("IsDownload", Int16(|row| row.hit.is_download)),
    ("IsNotBounce", Int16(|row| row.hit.is_not_bounce)),
    ("FUniqID", Int64(|row| row.visitor.cookie_id)),
    ("OriginalURL", Text(|row| row.batch.text(row.hit.original_url))),
    ("HID", Int32(|row| row.hit.load)),
    ("IsOldCounter", Int16(|row| i16::from(row.site.number % 500 == 499))),
    ("IsEvent", Int16(|row| row.hit.is_event)),
    ("IsParameter", Int16(|row| i16::from(row.one_in(3_000)))),
    ("DontCountHits", Int16(|row| row.hit.is_uncounted)),
    ("WithHash", Int16(|row| i16::from(row.hit.is_link == 0 && row.site.style == super::sites::Style::Anchors))),
    ("HitColor", Text(|row| row.site.hit_color)),
    ("LocalEventTime", Time(|row| row.local_time())),
    ("Age", Int16(|row| row.visitor.age)),
    ("Sex", Int16(|row| row.visitor.sex)),
    ("Income", Int16(|row| row.visitor.income)),
    ("Interests", Int16(|row| row.visitor.interests)),
    ("Robotness", Int16(|row| row.visitor.robotness)),
    ("RemoteIP", Int32(|row| row.visitor.remote_ip)),
    ("WindowName", Int32(|row| row.visit.window_name)),
    ("OpenerName", Int32(|row| row.visit.opener_name)),
    ("HistoryLength", Int16(|row| row.hit.history)),
    ("BrowserLanguage", Text(|row| row.visitor.language)),
    ("BrowserCountry", Text(|row| row.visitor.country)),
    ("SocialNetwork", Text(|row| if row.one_in(20_000) { "vkontakte" } else { "" })),
    ("SocialAction", Text(|row| if row.one_in(20_000) { "like" } else { "" })),
    ("HTTPError", Int16(|row| if row.one_in(5_000) { 404 } else { 0 })),
    ("SendTiming", Int32(|row| row.hit.timings.send)),
    ("DNSTiming", Int32(|row| row.hit.timings.dns)),
    ("ConnectTiming", Int32(|row| row.hit.timings.connect)),
    ("ResponseStartTiming", Int32(|row| row.hit.timings.response_start)),
    ("ResponseEndTiming", Int32(|row| row.hit.timings.response_end)),
    ("FetchTiming", Int32(|row| row.hit.timings.fetch)),
    ("SocialSourceNetworkID", Int16(|row| row.hit.social_network)),
    ("SocialSourcePage", Text(|row| if row.hit.social_network == 3 { "/home.php" } else { "" })),
    ("ParamPrice", Int64(|row| if row.one_in(9_000) { row.hit.watch_id % 900_000 } else { 0 })),
    ("ParamOrderID", Text(|row| if row.one_in(9_000) { "order" } else { "" })),
    ("ParamCurrency", Text(|_| "RUB")),
    ("ParamCurrencyID", Int16(|_| 0)),
    ("OpenstatServiceName", Text(|row| row.campaign().openstat_service)),
    ("OpenstatCampaignID", Text(|row| row.campaign().openstat_campaign)),
    ("OpenstatAdID", Text(|row| row.campaign().openstat_ad)),
    ("OpenstatSourceID", Text(|row| row.campaign().openstat_source)),
    ("UTMSource", Text(|row| row.campaign().utm_source)),
    ("UTMMedium", Text(|row| row.campaign().utm_medium)),
    ("UTMCampaign", Text(|row| row.campaign().utm_campaign)),
    ("UTMContent", Text(|row| row.campaign().utm_content)),
    ("UTMTerm", Text(|row| row.campaign().utm_term)),
    ("FromTag", Text(|row| row.campaign().from_tag)),
    ("HasGCLID", Int16(|row| row.campaign().has_click_id)),
    ("RefererHash", Int64(|row| row.hit.referer_hash)),
    ("URLHash", Int64(|row| row.hit.url_hash)),
    ("CLID", Int32(|row| row.campaign().list)),
];

/// Computes the columns of a batch.
pub(super) fn arrays(world: &World, batch: &Batch) -> Vec<ArrayRef> {
    let rows: Vec<Row<'_>> = batch.hits.iter().map(|hit| row(world, batch, hit)).collect();
    COLUMNS.iter().map(|(_, value)| array(&rows, value)).collect()
}

fn row<'a>(world: &'a World, batch: &'a Batch, hit: &'a Hit) -> Row<'a> {
    let visit = &batch.visits[hit.visit as usize];
    Row { world, batch, hit, visit, visitor: &visit.visitor, site: world.sites.get(visit.site as usize) }
}

fn array(rows: &[Row<'_>], value: &Value) -> ArrayRef {
    match value {
        Int16(of) => Arc::new(Int16Array::from_iter_values(rows.iter().map(of))),
        Int32(of) => Arc::new(Int32Array::from_iter_values(rows.iter().map(of))),
        Int64(of) => Arc::new(Int64Array::from_iter_values(rows.iter().map(of))),
        Date(of) => Arc::new(Date32Array::from_iter_values(rows.iter().map(of))),
        Time(of) => Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| of(row) * 1_000_000))),
        Text(of) => {
            let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 8);
            rows.iter().for_each(|row| builder.append_value(of(row)));
            Arc::new(builder.finish())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_match_the_definition_of_the_table() {
        let schema = super::super::schema();
        let empty = arrays(&World::new(10, 1), &Batch::default());
        for ((field, (name, _)), array) in schema.fields().iter().zip(&COLUMNS).zip(&empty) {
            assert_eq!(field.name(), name);
            assert_eq!(field.data_type(), array.data_type(), "{name}");
        }
    }
}
