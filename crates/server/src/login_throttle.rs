//! Slows down clients that try passwords.
//!
//! Each failed login of a name from an address fills a bucket, which empties by one each second:
//!
//! ```text
//! failures in the bucket      0 ... 5        6 ... 49                 50 and more
//! the next failed login       is answered    waits, longer and        is refused without a check of its password,
//!                             at once        longer, up to 5 s        and so is the right password
//! ```
//!
//! A client with the right password never waits, because it may share its address with an attacker. A name is locked
//! for an address only after dozens of wrong passwords, and only as long as further ones come.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The failures after which answers wait.
const FREE_MAX: f64 = 5.0;
/// The failures after which logins are refused without a check.
const FAILURES_MAX: f64 = 50.0;
/// The failures that a bucket loses in a second.
const FORGOTTEN_PER_SECOND: f64 = 1.0;
/// How much longer the answer waits for each failure.
const WAIT_STEP: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The most buckets. It bounds the memory when a client tries many names.
const BUCKETS_MAX: usize = 10_000;
/// The bytes of a name that count. A client chooses the name, so it must not choose the memory.
const NAME_BYTES_MAX: usize = 64;

/// The failed logins of the last time.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle {
    buckets: Mutex<HashMap<BucketKey, Failures>>,
}

/// The address of a client, or its network, and the beginning of a name.
type BucketKey = (IpAddr, Box<[u8]>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: f64,
    counted: Instant,
}

impl Failures {
    /// The failures that are not forgotten yet.
    fn at(self, now: Instant) -> f64 {
        let forgotten = now.saturating_duration_since(self.counted).as_secs_f64() * FORGOTTEN_PER_SECOND;
        (self.count - forgotten).max(0.0)
    }
}

impl LoginThrottle {
    /// Whether logins of this name from this address are refused without a check.
    pub(crate) fn is_locked(&self, client: IpAddr, name: &str) -> bool {
        self.is_locked_at(client, name, Instant::now())
    }

    fn is_locked_at(&self, client: IpAddr, name: &str, now: Instant) -> bool {
        let failures = self.buckets.lock().get(&key(client, name)).copied();
        failures.is_some_and(|failures| failures.at(now) >= FAILURES_MAX)
    }

    /// Counts a failed login. Returns how long its answer must wait.
    pub(crate) fn failed(&self, client: IpAddr, name: &str) -> Duration {
        self.failed_at(client, name, Instant::now())
    }

    fn failed_at(&self, client: IpAddr, name: &str, now: Instant) -> Duration {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX {
            buckets.retain(|_, failures| failures.at(now) > 0.0);
            if buckets.len() >= BUCKETS_MAX {
                buckets.clear();
            }
        }
        let failures = buckets.entry(key(client, name)).or_insert(Failures { count: 0.0, counted: now });
        // Failures beyond the limit must not count, or the name would stay locked for longer than the attack goes on.
        // One more than the limit locks it for a second, so that one password is checked in each second.
        *failures = Failures { count: (failures.at(now) + 1.0).min(FAILURES_MAX + 1.0), counted: now };
        let beyond = (failures.count - FREE_MAX).max(0.0);
        WAIT_STEP.mul_f64(beyond).min(WAIT_MAX)
    }
}

/// The client by its address, or by the network of an address of IPv6, and the name in lower case.
fn key(client: IpAddr, name: &str) -> BucketKey {
    let client = match client.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    };
    let name = name.to_lowercase();
    let bytes = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    (client, bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_wait_longer_and_longer_until_the_name_is_locked() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let here = IpAddr::from([127, 0, 0, 1]);
        let waits: Vec<Duration> = (0..60).map(|_| throttle.failed_at(here, "Ann", now)).collect();
        assert!(waits[..5].iter().all(Duration::is_zero) && waits[5] == WAIT_STEP && waits[59] == WAIT_MAX);
        assert!(throttle.is_locked_at(here, "ann", now));
        assert!(!throttle.is_locked_at(here, "bob", now));
        assert!(!throttle.is_locked_at(IpAddr::from([127, 0, 0, 2]), "ann", now));
        let after = |millis: u64| throttle.is_locked_at(here, "ann", now + Duration::from_millis(millis));
        assert!(after(10) && after(900) && !after(1_100));
        let much_later = now + Duration::from_secs(60);
        assert_eq!(throttle.failed_at(here, "ann", much_later), Duration::ZERO);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_many_names_take_bounded_memory() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        for host in 0..60 {
            throttle.failed_at(IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]), "ann", now);
        }
        assert!(throttle.is_locked_at(IpAddr::from([0x2001, 0xdb8, 0, 7, 9, 9, 9, 9]), "ann", now));
        for number in 0..BUCKETS_MAX + 10 {
            throttle.failed_at(IpAddr::from([10, 0, 0, 1]), &format!("{number}é{}", "x".repeat(1_000)), now);
        }
        assert!(throttle.buckets.lock().len() <= BUCKETS_MAX);
    }
}
