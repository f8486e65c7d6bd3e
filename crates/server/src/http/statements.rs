//! `GET /statements`: the statements that run on all connections. `DELETE /statements/{id}` cancels one of them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rowmill::RunningStatement;
use rowmill::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use rowmill::text::format_value;
use serde_json::{Value as Json, json};

use super::{failure, json_response};
use crate::login::ClientLogin;
use crate::server::ServerShared;

/// The most characters of a statement that the list shows.
const TEXT_CHARS_MAX: usize = 4_000;

pub(super) async fn list(
    State(shared): State<Arc<ServerShared>>,
    Extension(login): Extension<ClientLogin>,
) -> Response {
    let running = shared.database.running_statements();
    let statements: Json = running.iter().filter(|statement| may_see(&login, statement)).map(statement_json).collect();
    json_response(StatusCode::OK, &json!({"statements": statements}))
}

pub(super) async fn cancel(
    State(shared): State<Arc<ServerShared>>,
    Extension(login): Extension<ClientLogin>,
    Path(id): Path<String>,
) -> Response {
    let running = shared.database.running_statements();
    let may_cancel = |id| running.iter().any(|statement| statement.id == id && may_see(&login, statement));
    match id.parse().is_ok_and(|id| may_cancel(id) && shared.database.cancel_statement(id)) {
        true => StatusCode::NO_CONTENT.into_response(),
        false => failure(StatusCode::NOT_FOUND, "42704", &format!("no statement with the number {id} runs")),
    }
}

/// Whether a client may see and cancel a statement: superusers all of them, others those of their role.
fn may_see(login: &ClientLogin, statement: &RunningStatement) -> bool {
    login.is_superuser || statement.client.user.as_deref() == Some(&*login.name)
}

fn statement_json(statement: &RunningStatement) -> Json {
    let started: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![statement.started_us]).with_timezone("UTC"));
    let mut shown: String = statement.text.chars().take(TEXT_CHARS_MAX).collect();
    if shown.len() < statement.text.len() {
        shown.push('…');
    }
    let progress = statement.progress.map(|progress| {
        json!({
            "rows_done": progress.rows_done,
            "rows_total": progress.rows_total,
            "share": progress.share,
            "spilled_bytes": progress.spilled_bytes,
        })
    });
    json!({
        "id": statement.id,
        "connection": statement.client.connection,
        "user": statement.client.user,
        "client": statement.client.address,
        "protocol": statement.client.protocol,
        "text": shown,
        "started": format_value(&started, 0).ok().flatten(),
        "seconds": (statement.elapsed.as_secs_f64() * 1e3).round() / 1e3,
        "progress": progress,
    })
}
