//! `DISCARD`: gives a connection the state that a new one has, so that a pool can hand it on.
//!
//! A ROLLBACK brings back the temporary tables of its transaction, and nothing else.

use rowmill_base::Result;
use sqlparser::ast::{DiscardObject, Reset};

use crate::advisory_locks::LockSpan;
use crate::outcome::Outcome;
use crate::session::Work;
use crate::settings;

pub(crate) fn run(work: &mut Work<'_>, what: &DiscardObject) -> Result<Outcome> {
    let tag = match what {
        // Plans are made again by themselves when they no longer fit.
        DiscardObject::PLANS => "DISCARD PLANS",
        DiscardObject::SEQUENCES => {
            work.session.taken_numbers().forget();
            "DISCARD SEQUENCES"
        }
        DiscardObject::TEMP => {
            work.session.drop_temporary_tables()?;
            "DISCARD TEMP"
        }
        DiscardObject::ALL => {
            all(work)?;
            "DISCARD ALL"
        }
    };
    Ok(Outcome::Done { tag })
}

fn all(work: &mut Work<'_>) -> Result<()> {
    work.session.named_statements.clear();
    work.session.forget_variables();
    work.session.drop_secrets();
    work.session.taken_numbers().forget();
    work.session.locks().give_all_up(LockSpan::Session);
    work.session.drop_temporary_tables()?;
    // The settings come last, because they decide how the statements above run.
    settings::reset(work, &Reset::ALL).map(drop)
}
