//! The cached statements of connections that have closed, for connections that are opened later.
//!
//! Many programs open a connection for each request or each transaction. Such a connection should not parse, plan and
//! compile statements again that the ones before it have run. It takes the whole cache of a closed connection, so no
//! two connections share one, and a running statement never waits for another connection.

use parking_lot::Mutex;
use rowmill_base::Settings;

use crate::access::Actor;
use crate::statement_cache::StatementCache;

/// The most caches that are kept. More would only serve programs that close and open that many connections at once.
const CACHES_MAX: usize = 16;

/// The caches of the closed connections of one database.
#[derive(Default)]
pub struct IdleStatements {
    /// Each cache with the settings and the actor that its statements were made for, the last closed connection last.
    /// Plans are not checked again, so an actor must never get those of another one.
    caches: Mutex<Vec<(Settings, Actor, StatementCache)>>,
}

impl IdleStatements {
    /// Takes the cache that was given back last, if one was made for these settings and this actor. Otherwise returns
    /// an empty one.
    pub(crate) fn take(&self, settings: &Settings, actor: Actor) -> StatementCache {
        let mut caches = self.caches.lock();
        match caches.iter().rposition(|(made_for, of, _)| made_for == settings && *of == actor) {
            Some(at) => caches.remove(at).2,
            None => StatementCache::default(),
        }
    }

    /// Keeps the cache of a connection that closes.
    pub(crate) fn give_back(&self, settings: Settings, actor: Actor, cache: StatementCache) {
        let mut caches = self.caches.lock();
        if caches.len() == CACHES_MAX {
            caches.remove(0);
        }
        caches.push((settings, actor, cache));
    }
}

impl std::fmt::Debug for IdleStatements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleStatements").field("caches", &self.caches.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::parse;

    /// A cache that knows one text.
    fn cache(sql: &str) -> StatementCache {
        let mut cache = StatementCache::default();
        cache.keep_statement(sql, &parse::parse(sql, &Settings::default()).unwrap().remove(0));
        cache
    }

    #[test]
    fn a_cache_is_taken_once_and_only_for_its_settings_and_its_actor() {
        let idle = IdleStatements::default();
        let mut others = Settings::default();
        others.set("batch_rows", "1").unwrap();
        let (host, role) = (Actor::Host, Actor::Role(rowmill_base::RoleId(1)));
        idle.give_back(Settings::default(), host, cache("SELECT 1"));
        assert!(idle.take(&others, host).parsed("SELECT 1", 0).is_none());
        assert!(idle.take(&Settings::default(), role).parsed("SELECT 1", 0).is_none());
        assert!(idle.take(&Settings::default(), host).parsed("SELECT 1", 0).is_some());
        assert!(idle.take(&Settings::default(), host).parsed("SELECT 1", 0).is_none());
    }

    #[test]
    fn the_oldest_caches_go_first() {
        let idle = IdleStatements::default();
        for number in 0..=CACHES_MAX {
            idle.give_back(Settings::default(), Actor::Host, cache(&format!("SELECT {number}")));
        }
        assert_eq!(idle.caches.lock().len(), CACHES_MAX);
        assert!(idle.take(&Settings::default(), Actor::Host).parsed(&format!("SELECT {CACHES_MAX}"), 0).is_some());
        assert!(idle.caches.lock().iter_mut().all(|(.., cache)| cache.parsed("SELECT 0", 0).is_none()));
    }
}
