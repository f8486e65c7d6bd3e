//! Dispatch: calls the code for each kind of statement.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::session_zone::with_session_zone;
use sqlparser::ast::{DescribeAlias, Statement as Sql};

use crate::outcome::Outcome;
use crate::parse::{AccessStatement, StatementBody};
use crate::session::Work;
use crate::statement::write::changing_with::{self, ChangingWith};
use crate::statement::write::{self, ChangeSyntax};
use crate::statement::{
    alter_sequence, alter_table, alter_time_table, analyze, attach, check, comment, copy, create_table, describe,
    discard, drop, export_database, grant, import_database, index, lock, macro_definition, maintenance,
    materialized_view, named_statement, refresh, role, schema, search_path, secret, sequence, show, transaction,
    truncate, type_definition, view,
};
use crate::{explain, settings};

pub(crate) fn run(work: &mut Work<'_>) -> Result<Outcome> {
    match work.statement.body() {
        StatementBody::Checkpoint => {
            work.engine().checkpoint()?;
            Ok(Outcome::Done { tag: "CHECKPOINT" })
        }
        StatementBody::CheckDatabase => check::run(work),
        StatementBody::Backup { to } => maintenance::backup(work, to),
        StatementBody::Restore { from, to } => maintenance::restore(work, from, to),
        StatementBody::Export(export) => export_database::run(work, export),
        StatementBody::Import { from } => import_database::run(work, from),
        StatementBody::Attach(statement) => attach::attach(work, statement),
        StatementBody::Detach(statement) => attach::detach(work, statement),
        // Their refreshes have no session, so they keep to UTC.
        StatementBody::Refresh(statement) => with_session_zone(None, || refresh::run(work, statement)),
        StatementBody::Vacuum(vacuum) => maintenance::vacuum(work, vacuum),
        StatementBody::Copy(statement) => copy::run(work, statement),
        StatementBody::ExplainCopy(statement) => explain::explain_copy(work, statement),
        StatementBody::AlterTimeTable(alter) => alter_time_table::run(work, alter),
        StatementBody::AlterSequence(alter) => alter_sequence::run(work, alter),
        StatementBody::Access(statement) => match &**statement {
            AccessStatement::Grant(_) | AccessStatement::GrantRole { .. } | AccessStatement::SetOwner { .. } => {
                grant::run(work, statement)
            }
            statement => role::run(work, statement),
        },
        StatementBody::Prepare(statement)
        | StatementBody::Execute(statement)
        | StatementBody::Deallocate(statement) => named_statement::run(work, statement),
        StatementBody::Macro(statement) => macro_definition::run(work, statement),
        StatementBody::Sql(sql) => run_sql(work, sql),
    }
}

fn run_sql(work: &mut Work<'_>, sql: &Sql) -> Result<Outcome> {
    match sql {
        Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => {
            if let Some(parts) = ChangingWith::of(sql) {
                return changing_with::run(work, &parts);
            }
            write::run(work, ChangeSyntax { with: None, change: sql })
        }
        // The lock clause is no longer in the tree, so the statement must be asked.
        Sql::Query(query) if let Some(lock) = work.statement.row_lock() => lock::run(work, query, lock),
        Sql::Query(query) => {
            if let Some(parts) = ChangingWith::of(sql) {
                return changing_with::run(work, &parts);
            }
            // `WITH` before a change makes the change the body of a query.
            if let Some(change) = ChangeSyntax::of(sql) {
                return write::run(work, change);
            }
            let view = work.view()?;
            let ready = work.ready_whole(view, query)?;
            Ok(Outcome::Rows(ready.start(work.progress().cloned(), work.started)))
        }
        Sql::Truncate(truncate) => truncate::run(work, truncate),
        Sql::CreateTable(create) => create_table::run(work, create),
        Sql::CreateIndex(create) => index::create(work, create),
        Sql::CreateView(create) if create.materialized => {
            with_session_zone(None, || materialized_view::run(work, create))
        }
        Sql::CreateView(create) => view::run(work, create),
        Sql::CreateSequence { .. } => sequence::create(work, sql),
        Sql::CreateSchema { .. } => schema::run(work, sql),
        Sql::CreateType { name, representation } => type_definition::create(work, name, representation.as_ref()),
        Sql::CreateSecret { .. } => secret::create(work, sql),
        Sql::DropSecret { .. } => secret::drop(work, sql),
        Sql::AlterType(alter) => type_definition::alter(work, alter),
        Sql::AlterTable(alter) => alter_table::run(work, alter),
        Sql::Drop { .. } => drop::run(work, sql),
        Sql::Comment { .. } => comment::run(work, sql),
        Sql::StartTransaction { .. }
        | Sql::Commit { .. }
        | Sql::Rollback { .. }
        | Sql::Savepoint { .. }
        | Sql::ReleaseSavepoint { .. } => transaction::run(work, sql),
        Sql::Explain { describe_alias: DescribeAlias::Describe | DescribeAlias::Desc, .. }
        | Sql::ExplainTable { .. } => describe::run(work, sql),
        Sql::Explain { .. } => explain::run(work, sql),
        Sql::Set(set) => settings::set(work, set),
        Sql::Reset(reset) => settings::reset(work, &reset.reset),
        Sql::Use(target) => {
            search_path::use_place(work, target)?;
            Ok(Outcome::Done { tag: "USE" })
        }
        Sql::ShowVariable { variable } => settings::show(work, variable),
        Sql::ShowTables { .. }
        | Sql::ShowViews { .. }
        | Sql::ShowSchemas { .. }
        | Sql::ShowDatabases { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowFunctions { .. }
        | Sql::ShowCreate { .. } => show::run(work, sql),
        Sql::Analyze(statement) => analyze::run(work, statement),
        Sql::Discard { object_type } => discard::run(work, object_type),
        other => Err(unsupported(&first_words(&other.to_string()))),
    }
}

/// Returns the first words of a statement in upper case, which name its kind.
fn first_words(text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut named: Vec<String> = words.next().into_iter().map(str::to_uppercase).collect();
    // We take the second word if it is a keyword, as in CREATE FUNCTION. The parser prints keywords in upper case.
    let second = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()));
    named.extend(second.map(str::to_owned));
    named.join(" ")
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not a statement that this version runs"))
}
