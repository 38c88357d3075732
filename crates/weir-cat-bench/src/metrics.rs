//! The metrics of a running Weir, as its HTTP listener tells them in Prometheus' text.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Text of the page.
///
/// # Errors
/// The connection's, or the page is not there.
pub fn fetch(address: &str) -> Result<String, String> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = fetch().map_err(|error| format!("http://{address}/metrics: {error}"))?;
    match text.split_once("\r\n\r\n") {
        Some((head, page)) if head.starts_with("HTTP/1.1 200") => Ok(page.to_owned()),
        _ => Err(format!("http://{address}/metrics: {}", text.lines().next().unwrap_or("no answer"))),
    }
}

/// Sum of the samples of a metric, over all labels.
pub fn sum(page: &str, metric: &str) -> f64 {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let is_it = rest.starts_with(['{', ' ']);
        is_it.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    samples.sum()
}

/// Samples of a metric as they stand there, with their labels.
pub fn samples<'a>(page: &'a str, metric: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_added_up() {
        let page = "# HELP a_total Of a.\n# TYPE a_total counter\na_total{x=\"1 2\"} 3\na_total{x=\"2\"} 4.5\na_total_b 9\nb 2\n";
        assert_eq!((sum(page, "a_total"), sum(page, "b"), sum(page, "c")), (7.5, 2.0, 0.0));
        assert_eq!(samples(page, "a_total"), ["a_total{x=\"1 2\"} 3", "a_total{x=\"2\"} 4.5"]);
    }
}
