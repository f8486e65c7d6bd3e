//! A headless browser, driven through pipes by the DevTools protocol of Chromium.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

/// The longest time for anything that the browser is asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends when it is dropped.
pub(crate) struct Browser {
    process: Child,
    out: File,
    messages: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    /// The events that came so far.
    pub(crate) events: Vec<Value>,
    _folder: TempDir,
}

/// Returns the browser that `ROWMILL_BROWSER` names, or one of the usual names.
fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ROWMILL_BROWSER") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.exists())
}

fn make_pipe(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    Command::new("mkfifo").arg(&path).status().ok()?.success().then_some(path)
}

impl Browser {
    /// Starts a browser. Returns `None`, and says so, if there is none.
    #[allow(clippy::print_stderr)]
    pub(crate) fn start() -> Option<Browser> {
        let Some(path) = find() else {
            eprintln!("skipped: no browser; install chromium or name one in ROWMILL_BROWSER");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (Some(input), Some(output)) = (make_pipe(folder.path(), "in"), make_pipe(folder.path(), "out")) else {
            eprintln!("skipped: no mkfifo");
            return None;
        };
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$BROWSER_IN\" 4>\"$BROWSER_OUT\""])
            .arg(&path)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"])
            .args(["--window-size=1280,800", "--disable-dev-shm-usage", "about:blank"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .envs([("BROWSER_IN", &input), ("BROWSER_OUT", &output)])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = File::options().write(true).open(&input).unwrap();
        let answers = File::open(&output).unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let events = Vec::new();
        let mut browser = Browser { process, out, messages, last_id: 0, session: None, events, _folder: folder };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.ask("Target.attachToTarget", attach)["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and returns its result.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.out.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            match answer["id"].as_u64() {
                Some(id) if id == self.last_id => {
                    assert!(answer["error"].is_null(), "{method}: {answer}");
                    return answer["result"].clone();
                }
                Some(_) => {}
                None => self.events.push(answer),
            }
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
    }

    /// Evaluates an expression of JavaScript on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.ask("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let started = Instant::now();
        while self.evaluate(&format!("Boolean({expression})")) != true {
            let page = || "document.body.innerText".to_owned();
            assert!(started.elapsed() < PATIENCE, "never true: {expression}\n{}", self.evaluate(&page()));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types a text at the focus.
    pub(crate) fn insert(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }

    /// Presses a key; `modifiers` is 2 for Ctrl.
    pub(crate) fn press(&mut self, key: &str, code: u32, modifiers: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers,
            });
            self.ask("Input.dispatchKeyEvent", params);
        }
    }

    /// Emulates the colours that the user prefers: `light` or `dark`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// The texts of the events of a kind, for example `Runtime.exceptionThrown`.
    pub(crate) fn events_of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
