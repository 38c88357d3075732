//! Progress on standard error: a bar on a terminal, a line for each phase elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_server::progress::Progress;

/// Shows one job's remarks; what it drew is gone once it is dropped.
pub struct ProgressView {
    bar: Option<ProgressBar>,
}

impl ProgressView {
    /// On a terminal that is not told to be quiet.
    pub fn new() -> ProgressView {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        ProgressView { bar }
    }

    pub fn show(&mut self, remark: Progress<'_>) {
        match (&self.bar, remark) {
            (Some(bar), Progress::Phase { name, steps }) => {
                let template = if steps > 0 {
                    "{prefix:<12} {bar:32.cyan} {percent:>3}%  {elapsed}  {msg}"
                } else {
                    "{prefix:<12} {spinner} {elapsed}  {msg}"
                };
                let style =
                    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
                bar.reset();
                bar.set_style(style.progress_chars("━╸─"));
                bar.set_length(steps.max(1));
                bar.set_prefix(name.to_owned());
                bar.set_message("");
            }
            (Some(bar), Progress::Steps { done, note }) => {
                bar.set_position(done);
                bar.set_message(note.to_owned());
            }
            (None, Progress::Phase { name, .. }) => crate::output::print_remark(&format!("weir: {name} …")),
            (None, Progress::Steps { .. }) => {}
        }
    }
}

impl Drop for ProgressView {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
