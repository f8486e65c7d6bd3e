//! `LIKE` for single rows.

use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::Result;
use rowmill_expr::kernels::like::LikeMatcher;
use rowmill_storage::keyed::ValueRef;

use super::{Env, Expr};

/// A text, a pattern, and the matcher of the last pattern. The pattern rarely changes from row to row, so we keep its
/// matcher.
#[derive(Debug)]
pub(crate) struct LikeTest {
    operands: [Expr; 2],
    escape: Option<char>,
    ignore_case: bool,
    negated: bool,
    prepared: Mutex<Option<(String, Arc<LikeMatcher>)>>,
}

impl LikeTest {
    pub(super) fn new(operands: [Expr; 2], escape: Option<char>, ignore_case: bool, negated: bool) -> LikeTest {
        LikeTest { operands, escape, ignore_case, negated, prepared: Mutex::default() }
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let [text, pattern] = &self.operands;
        let (text, pattern) = (text.value(env)?, pattern.value(env)?);
        let (ValueRef::Text(text), ValueRef::Text(pattern)) = (text, pattern) else { return Ok(ValueRef::Null) };
        let matches = self.matcher(pattern)?.matches(text, &mut String::new());
        Ok(ValueRef::Bool(matches != self.negated))
    }

    fn matcher(&self, pattern: &str) -> Result<Arc<LikeMatcher>> {
        // The lock is held only to look up or to replace the matcher, not while it runs.
        let mut prepared = self.prepared.lock();
        if let Some((of, matcher)) = &*prepared
            && of == pattern
        {
            return Ok(Arc::clone(matcher));
        }
        let matcher = Arc::new(LikeMatcher::new(pattern, self.escape, self.ignore_case)?);
        *prepared = Some((pattern.to_owned(), Arc::clone(&matcher)));
        Ok(matcher)
    }
}
