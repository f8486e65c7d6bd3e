//! The quota of temporary disk space. Each database has one.
//!
//! Bytes are charged before they are written, and given back only after the file with them is gone. So the charge may
//! be too high for a moment, but is never too low.

use std::sync::Arc;

use crate::limited_bytes::LimitedBytes;
use crate::{Error, ErrorKind, Result};

/// The unit in which file systems give out space.
const DISK_PAGE_BYTES: u64 = 4096;

/// Charges temporary disk space against a limit. Clones share one account.
#[derive(Clone, Debug)]
pub struct DiskQuota {
    account: Arc<LimitedBytes>,
}

impl DiskQuota {
    /// Makes a quota of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> DiskQuota {
        DiskQuota { account: Arc::new(LimitedBytes::new(limit_bytes)) }
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.account.limit()
    }

    /// Changes the limit. Space that is already charged stays charged.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.account.set_limit(bytes);
    }

    /// The bytes charged now.
    pub fn used_bytes(&self) -> u64 {
        self.account.used()
    }

    /// The most bytes that were charged at once.
    pub fn peak_bytes(&self) -> u64 {
        self.account.peak()
    }

    /// Makes an empty charge for `owner`, the operator that writes a file.
    pub fn charge(&self, owner: &'static str) -> DiskCharge {
        DiskCharge { quota: self.clone(), owner, bytes: 0 }
    }
}

/// The space that is charged for one file. Given back on drop, so its holder must drop it only after the file is gone.
#[derive(Debug)]
pub struct DiskCharge {
    quota: DiskQuota,
    owner: &'static str,
    bytes: u64,
}

impl DiskCharge {
    /// The bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges the space of a file that grows to `file_bytes`. Fails and charges nothing if that would pass the limit.
    pub fn grow_to(&mut self, file_bytes: u64) -> Result<()> {
        let account = &self.quota.account;
        let more = file_bytes.next_multiple_of(DISK_PAGE_BYTES).saturating_sub(self.bytes);
        let (used, limit) = (account.take(more), account.limit());
        if used > limit {
            account.give_back(more);
            let message = format!(
                "{} must write {more} bytes to disk, but {} of the limit of {limit} bytes are in use",
                self.owner,
                used - more
            );
            let hint = "raise it with SET temp_disk_limit = '...', or raise memory_limit so that less is written";
            return Err(Error::new(ErrorKind::DiskFull, message).hint(hint));
        }
        account.keep(used);
        self.bytes += more;
        Ok(())
    }

    /// Gives back the space beyond `file_bytes`, which must not be in use.
    pub fn shrink_to(&mut self, file_bytes: u64) {
        let less = self.bytes.saturating_sub(file_bytes.next_multiple_of(DISK_PAGE_BYTES));
        self.quota.account.give_back(less);
        self.bytes -= less;
    }

    /// Keeps the charge for ever, because the file could not be removed.
    pub fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for DiskCharge {
    fn drop(&mut self) {
        self.quota.account.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_charge_takes_nothing_and_names_its_owner_and_the_setting() {
        let quota = DiskQuota::new(10_000);
        let mut sort = quota.charge("ORDER BY");
        sort.grow_to(1).expect("a page");
        sort.grow_to(4096).expect("the same page");
        assert_eq!((sort.bytes(), quota.used_bytes()), (4096, 4096));
        let mut group = quota.charge("GROUP BY");
        let error = group.grow_to(5000).expect_err("three pages are too many");
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(error.message().starts_with("GROUP BY must write 8192 bytes"), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("temp_disk_limit")));
        drop(sort);
        group.grow_to(5000).expect("room again");
        group.shrink_to(4000);
        assert_eq!(quota.used_bytes(), 4096);
        group.grow_to(5000).expect("a page more");
        assert_eq!((quota.used_bytes(), quota.peak_bytes()), (8192, 8192));
        group.keep();
        assert_eq!(quota.used_bytes(), 8192, "a file that is still there stays charged");
    }
}
