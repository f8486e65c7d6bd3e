//! The console: its files, and the page in a headless browser.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::Browser;
use crate::cancelling::LONG;
use crate::http::{ask, query};
use crate::support::TestServer;

const ENTER: (&str, u32) = ("Enter", 13);
const ESCAPE: (&str, u32) = ("Escape", 27);
const CTRL: u32 = 2;

#[test]
fn the_page_loads_only_files_of_the_server() {
    let server = TestServer::start();
    let page = ask(&server, "GET", "/", &[], b"");
    assert!(page.head.contains("content-type: text/html"), "{}", page.head);
    let policy = page.head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let page = page.text();
    assert!(!page.contains("://") && !page.contains("<style") && !page.contains("style="), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    let mut packed_bytes = 0;
    for name in ["console.js", "console.css", "icon.svg", "licenses.txt"] {
        let path = format!("/console/{name}");
        let plain = ask(&server, "GET", &path, &[], b"");
        let packed = ask(&server, "GET", &path, &[("Accept-Encoding", "gzip, br")], b"");
        assert!(packed.head.contains("content-encoding: gzip"), "{}", packed.head);
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.body.as_slice()), &mut unpacked).unwrap();
        assert!(!plain.body.is_empty() && unpacked == plain.body, "{name}");
        packed_bytes += packed.body.len();
    }
    assert!(packed_bytes < 230_000, "{packed_bytes} bytes are much for one page");
    assert_eq!(ask(&server, "GET", "/console/nothing.js", &[], b"").status, 404);
}

/// Replaces the statement of the editor and runs it.
fn run(browser: &mut Browser, sql: &str) {
    browser.evaluate("document.querySelector('.editor').shadowRoot.querySelector('.cm-content').focus()");
    browser.ask(
        "Input.dispatchKeyEvent",
        json!({
            "type": "rawKeyDown", "key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": CTRL,
            "commands": ["selectAll"],
        }),
    );
    // A text that replaces a selection would take over its style, which the policy of the page refuses.
    browser.press("Backspace", 8, 0);
    browser.insert(sql);
    browser.press(ENTER.0, ENTER.1, CTRL);
}

/// Clicks the button whose text begins so: a number may follow.
fn click(browser: &mut Browser, text: &str) {
    let found = format!("[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('{text}'))");
    browser.evaluate(&format!("{found}.click()"));
}

#[test]
fn the_page_runs_cancels_draws_and_imports() {
    let Some(mut browser) = Browser::start() else { return };
    let server = TestServer::start();
    query(&server, "/query", "CREATE TABLE trades (ts TIMESTAMP, sym TEXT, price DOUBLE) TIMESTAMP(ts)");
    let rows = "SELECT TIMESTAMP '2026-01-01' + n * INTERVAL '1 minute', CASE n % 2 WHEN 0 THEN 'A' ELSE 'B' END, \
                50 + n % 100 FROM range(5000) AS r(n)";
    query(&server, "/query", &format!("INSERT INTO trades {rows}"));
    let home = format!("http://{}/", server.http_address());
    browser.open(&home);
    browser.wait_for("document.querySelector('[data-table=\"trades\"]')");

    run(&mut browser, "SELECT ts, sym, price FROM trades ORDER BY ts");
    browser.wait_for("document.querySelector('.status').textContent.startsWith('5,000 rows')");
    let first = browser.evaluate("document.querySelector('.grid-row').innerText.split('\\n').join('|')");
    assert!(first.as_str().unwrap().contains("2026-01-01 00:00:00|A|50"), "{first}");
    let made = browser.evaluate("document.querySelectorAll('.grid-row').length").as_u64().unwrap();
    assert!(made < 200, "{made} elements for 5,000 rows");
    browser.evaluate("document.querySelector('.grid').scrollTop = 1e9");
    browser.wait_for("document.querySelector('.grid-row:last-child .row-number').textContent === '5,000'");

    click(&mut browser, "Chart");
    browser.wait_for("document.querySelector('.chart-place canvas').clientWidth > 300");
    let legend = browser.evaluate("document.querySelector('.u-legend').innerText");
    assert!(legend.as_str().unwrap().contains('A') && legend.as_str().unwrap().contains('B'), "{legend}");

    run(&mut browser, "SELECT sym,\n prise FROM trades");
    browser.wait_for("document.querySelector('.message.failed')?.textContent.includes('prise')");
    browser.wait_for("document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')");
    let marked = "document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error').textContent";
    assert_eq!(browser.evaluate(marked), "prise");

    run(&mut browser, "BEGIN");
    browser.wait_for("document.querySelector('.message.failed')?.textContent.startsWith('BEGIN has no effect')");

    run(&mut browser, "EXPLAIN ANALYZE SELECT sym, count(*) FROM trades GROUP BY sym");
    browser.wait_for("document.querySelectorAll('.plan-row').length >= 2");

    cancels_a_statement(&mut browser, &server);
    imports_a_file(&mut browser, &server);

    click(&mut browser, "Activity");
    browser.wait_for("document.querySelectorAll('.metric canvas').length === 6");
    for scheme in ["dark", "light"] {
        browser.prefer(scheme);
        browser.wait_for(&format!("document.documentElement.dataset.theme === '{scheme}'"));
    }
    assert_eq!(browser.events_of("Runtime.exceptionThrown"), Vec::<&serde_json::Value>::new());
    let entries = browser.events_of("Log.entryAdded");
    // The statement that fails above is answered with status 400.
    let unexpected = entries.iter().filter(|entry| entry["entry"]["source"] != "network").collect::<Vec<_>>();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    for request in browser.events_of("Network.requestWillBeSent") {
        let url = request["request"]["url"].as_str().unwrap();
        assert!(url.starts_with(&home) || url == "about:blank", "{url}");
    }
}

fn cancels_a_statement(browser: &mut Browser, server: &TestServer) {
    run(browser, LONG);
    browser.wait_for("[...document.querySelectorAll('.toolbar .danger')].some((one) => !one.hidden)");
    let listed = || ask(server, "GET", "/statements", &[], b"").text().contains("range(3000000)");
    wait_until("the statement runs", listed);
    browser.press(ESCAPE.0, ESCAPE.1, 0);
    browser.wait_for("document.querySelector('.message').textContent.includes('cancelled')");
    wait_until("the statement has ended", || !listed());
}

fn imports_a_file(browser: &mut Browser, server: &TestServer) {
    browser.evaluate(
        "(() => {
            const data = new DataTransfer();
            data.items.add(new File(['name,amount\\nbolt,200\\nnut,350\\n'], 'Small parts.csv'));
            dispatchEvent(new DragEvent('drop', {dataTransfer: data}));
        })()",
    );
    browser.wait_for("document.querySelector('dialog[open] input[name=table]').value === 'small_parts'");
    browser.evaluate("document.querySelector('dialog button[type=submit]').click()");
    browser.wait_for("document.querySelector('.import-message').textContent.startsWith('2 rows')");
    browser.press(ESCAPE.0, ESCAPE.1, 0);
    browser.wait_for("document.querySelector('[data-table=\"small_parts\"]')");
    assert_eq!(query(server, "/query", "SELECT sum(amount) FROM small_parts").json()["rows"], json!([[550]]));
}

fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
