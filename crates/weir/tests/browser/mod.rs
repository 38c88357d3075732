//! A headless Chromium, driven over the pipe of its DevTools protocol: messages are JSON, each ended by a zero byte.
//!
//! Knows nothing of the report. What the page throws, logs as an error or is refused by its policy is kept.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use serde_json::{Value, json};

/// The names under which distributions have it.
const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    sent: u64,
    /// Errors in the pages so far.
    pub complaints: Vec<String>,
    /// The page's `load` events so far.
    loads: usize,
    _profile: Profile,
}

/// A directory that is gone when the browser is.
struct Profile(std::path::PathBuf);

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Browser {
    pub fn start() -> Browser {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let program = NAMES
            .iter()
            .flat_map(|name| std::env::split_paths(&paths).map(move |path| path.join(name)))
            .find(|path| path.is_file())
            .expect("a Chromium; `sh ci/install.sh test` installs one");
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("weir-chromium-{}-{count}", std::process::id()));
        // The browser reads from descriptor 3 and writes to 4, which the shell makes of its input and output.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(&program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Chromium starts");
        let to = child.stdin.take().expect("a pipe to it");
        let from = BufReader::new(child.stdout.take().expect("a pipe from it"));
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            sent: 0,
            complaints: Vec::new(),
            loads: 0,
            _profile: Profile(profile),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer; what happens in the meantime is noted.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).and_then(|()| self.to.flush()).expect("Chromium listens");
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("Chromium answers");
        assert_eq!(bytes.pop(), Some(0), "Chromium has ended; does it run here at all?");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loads += 1,
            Some("Runtime.exceptionThrown") => {
                let details = &parameters["exceptionDetails"];
                self.complaints.push(format!("{} {}", details["text"], details["exception"]["description"]));
            }
            Some("Runtime.consoleAPICalled") if parameters["type"] != "log" => {
                self.complaints.push(parameters["args"].to_string());
            }
            Some("Log.entryAdded") => self.complaints.push(parameters["entry"]["text"].to_string()),
            _ => (),
        }
        message
    }

    /// Loads a file, with what follows the `#` of its address.
    pub fn open(&mut self, file: &Path, hash: &str) {
        self.visit(&format!("file://{}#{hash}", file.display()));
    }

    /// Loads an address.
    pub fn visit(&mut self, address: &str) {
        // From a blank page, so that another hash is another load.
        for address in ["about:blank", address] {
            let before = self.loads;
            self.call("Page.navigate", json!({"url": address}));
            while self.loads == before {
                self.receive();
            }
        }
    }

    /// The value of an expression in the page; a promise is waited for.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Presses a key as a person would.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let pressed = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", pressed);
        }
        if key == "Enter" {
            // The character is what activates a button.
            self.call("Input.dispatchKeyEvent", json!({"type": "char", "text": "\r"}));
        }
    }

    pub fn window(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", feature);
    }

    /// Writes what the window shows, or the whole page.
    pub fn screenshot(&mut self, file: &Path, whole: bool) {
        let shot =
            self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": whole}));
        write_decoded(file, &shot["data"]);
    }

    /// Writes the page as it is printed.
    pub fn print(&mut self, file: &Path) {
        let printed = self.call("Page.printToPDF", json!({"printBackground": false}));
        write_decoded(file, &printed["data"]);
    }
}

fn write_decoded(file: &Path, base64: &Value) {
    let text = base64.as_str().expect("base64");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    std::fs::write(file, bytes).expect("the artefact can be written");
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
