//! Which failures are tried again, and after how long.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use runvil_core::failure::{FailureKind, ModelFailure};

use crate::options::Backoff;

/// A request that failed and is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Counts the further tries of the request, from 1.
    pub number: u32,
    /// The wait before it.
    pub delay: Duration,
    /// What the try before it came to.
    pub failure: ModelFailure,
}

/// A request that failed once.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The failure to report when nothing is tried again.
    pub(crate) failure: ModelFailure,
    /// Whether an answer that reports success had begun.
    pub(crate) begun: bool,
    /// The wait the server asked for.
    pub(crate) retry_after: Option<Duration>,
}

impl Failed {
    /// A failure of a request whose answer had not begun.
    pub(crate) fn unanswered(failure: ModelFailure) -> Self {
        Self { failure, begun: false, retry_after: None }
    }

    /// Whether the same request may succeed later.
    fn may_pass(&self) -> bool {
        match self.failure.kind {
            FailureKind::RateLimited | FailureKind::Overloaded | FailureKind::ServerError | FailureKind::Transport => {
                true
            }
            FailureKind::Timeout => !self.begun,
            _ => false,
        }
    }

    /// How long to wait before retry `retry` (0-based); `None` when there must be none.
    pub(crate) fn delay(&self, retry: u32, backoff: &Backoff) -> Option<Duration> {
        if !self.may_pass() {
            return None;
        }
        match self.retry_after {
            Some(asked) => (asked <= backoff.longest_requested).then_some(asked),
            None => Some(backoff.bound(retry).mul_f64(fastrand::f64())),
        }
    }
}

impl Backoff {
    /// The upper bound of the wait before retry `retry` (0-based).
    fn bound(&self, retry: u32) -> Duration {
        let factor = 2_u32.saturating_pow(retry);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// The wait a server asks for, in seconds, milliseconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    if let Some(wait) = number("retry-after-ms").and_then(|wait| Duration::try_from_secs_f64(wait / 1000.0).ok()) {
        return Some(wait);
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: FailureKind, begun: bool, retry_after: Option<u64>) -> Failed {
        Failed { failure: ModelFailure::new(kind), begun, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let backoff = Backoff::default();
        for kind in FailureKind::ALL {
            let passing = matches!(kind.name(), "RateLimited" | "Overloaded" | "ServerError" | "Transport" | "Timeout");
            assert_eq!(failed(kind, false, None).delay(0, &backoff).is_some(), passing, "{kind}");
        }
        assert_eq!(failed(FailureKind::Timeout, true, None).delay(0, &backoff), None);
        assert!(failed(FailureKind::Transport, true, None).delay(0, &backoff).is_some());
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let bounds: Vec<u128> = (0..7).map(|retry| backoff.bound(retry).as_millis()).collect();
        assert_eq!(bounds, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(backoff.bound(u32::MAX), backoff.longest);
        for _ in 0..100 {
            assert!(failed(FailureKind::Overloaded, false, None).delay(1, &backoff).unwrap() <= Duration::from_secs(1));
        }
    }

    #[test]
    fn the_server_may_ask_for_a_wait_within_reason() {
        let backoff = Backoff::default();
        let asked = |seconds| failed(FailureKind::RateLimited, true, Some(seconds)).delay(0, &backoff);
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(60), Some(Duration::from_mins(1)));
        assert_eq!(asked(61), None);
    }

    #[test]
    fn the_wait_is_read_in_every_form() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (name, value, wait) in [
            ("retry-after", "7", Some(7000)),
            ("retry-after", " 0.25 ", Some(250)),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT", Some(30_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("retry-after-ms", "40", Some(40)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
            ("retry-after", "NaN", None),
            ("retry-after", "1e300", None),
            ("other", "7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(retry_after(&headers, now), wait.map(Duration::from_millis), "{name}: {value}");
        }
    }
}
