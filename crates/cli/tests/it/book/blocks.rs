//! The examples of a page, in order.

use std::ops::Range;

/// What to do with the text of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Runs it in the page's database.
    Sql,
    /// Runs it in bash.
    Shell,
    /// Runs it in Python.
    Python,
    /// Ends the server.
    Stop,
}

/// What a block should print.
pub(super) struct Expected {
    pub(super) text: String,
    /// Its lines of the page, counted from 0.
    pub(super) lines: Range<usize>,
}

/// An example.
pub(super) struct Step {
    pub(super) action: Action,
    pub(super) text: String,
    /// The line of the page, counted from 1.
    pub(super) line: usize,
    pub(super) expected: Option<Expected>,
}

/// Languages whose blocks are not run by this test: data, and programs that other tests run.
const NOT_RUN: &[&str] = &["text", "toml", "json", "rust"];

/// Reads the examples of a page. An error begins with the line.
pub(super) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut steps, mut at, mut table_runs) = (Vec::new(), 0, true);
    while let Some(line) = lines.get(at) {
        let begin = at;
        if let Some(info) = line.strip_prefix("```") {
            let end = end_of(&lines, at, |line| line == "```")?;
            let text = lines[at + 1..end].join("\n");
            at = end + 1;
            let Some(action) = block_action(info, begin)? else { continue };
            let expected = expected(&lines, at)?;
            steps.push(Step { action, text, line: begin + 1, expected });
        } else if let Some(note) = line.strip_prefix("<!-- ") {
            let end = end_of(&lines, at, |line| line.ends_with("-->"))?;
            at = end + 1;
            match note.split([' ', ':']).next() {
                Some("sql") => steps.push(unseen(Action::Sql, &lines[begin + 1..end], begin)),
                Some("sh") => steps.push(unseen(Action::Shell, &lines[begin + 1..end], begin)),
                Some("stop") => steps.push(unseen(Action::Stop, &[], begin)),
                Some("not") => table_runs = false,
                _ => {}
            }
        } else if line.starts_with('|') {
            let length = lines[at..].iter().take_while(|line| line.starts_with('|')).count();
            if std::mem::replace(&mut table_runs, true) {
                table_steps(&lines[at..at + length], at, &mut steps);
            }
            at += length;
        } else {
            at += 1;
        }
    }
    Ok(steps)
}

fn unseen(action: Action, lines: &[&str], begin: usize) -> Step {
    Step { action, text: lines.join("\n"), line: begin + 1, expected: None }
}

/// The line from `begin` on that ends what begins there.
fn end_of(lines: &[&str], begin: usize, is_end: impl Fn(&str) -> bool) -> Result<usize, String> {
    // A comment may end in the line in which it begins, a block may not.
    let first = if lines[begin].starts_with("```") { begin + 1 } else { begin };
    let length = lines[first..].iter().position(|line| is_end(line));
    length.map(|length| first + length).ok_or_else(|| format!("{}: it has no end", begin + 1))
}

/// What to do with a block, by the text after its fence.
fn block_action(info: &str, begin: usize) -> Result<Option<Action>, String> {
    let (language, note) = info.split_once(' ').unwrap_or((info, ""));
    if let Some(reason) = note.strip_prefix("not run: ") {
        return if reason.is_empty() { Err(format!("{}: a reason is missing", begin + 1)) } else { Ok(None) };
    }
    match language {
        _ if !note.is_empty() => Err(format!("{}: unknown words after the language: {note}", begin + 1)),
        "sql" => Ok(Some(Action::Sql)),
        "sh" => Ok(Some(Action::Shell)),
        "python" => Ok(Some(Action::Python)),
        _ if NOT_RUN.contains(&language) => Ok(None),
        _ => Err(format!("{}: a block has no known language", begin + 1)),
    }
}

/// The block of output that follows, if there is one.
fn expected(lines: &[&str], mut at: usize) -> Result<Option<Expected>, String> {
    while lines.get(at).is_some_and(|line| line.is_empty()) {
        at += 1;
    }
    if lines.get(at) != Some(&"```text") {
        return Ok(None);
    }
    let end = end_of(lines, at, |line| line == "```")?;
    Ok(Some(Expected { text: lines[at + 1..end].join("\n"), lines: at + 1..end }))
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let protected = line.trim().trim_matches('|').replace("\\|", "\0");
    protected.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// The pieces of code in the columns of a table that have examples.
fn table_steps(lines: &[&str], begin: usize, steps: &mut Vec<Step>) {
    let columns = cells(lines[0]);
    for (row, line) in lines.iter().enumerate().skip(2) {
        for (column, cell) in columns.iter().zip(cells(line)) {
            let spans = cell.split('`').skip(1).step_by(2);
            let is_sql = |span: &&str| !span.starts_with("rowmill ");
            let text = |span: &str| match &**column {
                "Rowmill" => Some(span.to_owned()),
                "literal" => Some(format!("SELECT {span}")),
                _ => None,
            };
            for span in spans {
                let Some(text) = text(span) else { continue };
                let action = if is_sql(&span) { Action::Sql } else { Action::Shell };
                steps.push(Step { action, text, line: begin + row + 1, expected: None });
            }
        }
    }
}

#[test]
fn blocks_comments_and_tables_are_examples() {
    let page = "```sql\nSELECT 1;\n```\n\n```text\n1\n```\n<!-- sql\nSELECT 2\n-->\n\
                | there | Rowmill |\n| --- | --- |\n| `x` | `SELECT 'a\\|b'` |\n```sh not run: slow\nsleep 9\n```\n";
    let steps = steps(page).expect("a page");
    let texts: Vec<&str> = steps.iter().map(|step| &*step.text).collect();
    assert_eq!(texts, ["SELECT 1;", "SELECT 2", "SELECT 'a|b'"]);
    assert_eq!(steps[0].expected.as_ref().map(|expected| &*expected.text), Some("1"));
    assert_eq!(steps[0].line, 1);
}

#[test]
fn a_block_without_a_language_is_refused() {
    assert_eq!(steps("text\n```\nx\n```\n").err().as_deref(), Some("2: a block has no known language"));
}
