//! Answers to the commands of other shells: what does the same here.

/// The commands of other shells and the answers.
const HABITS: &[(&str, &str)] = &[
    (".tables", "\\dt lists tables"),
    (".schema", "\\d NAME describes a table, and SHOW CREATE TABLE NAME shows its statement"),
    (".fullschema", "\\d lists tables, and SHOW CREATE TABLE NAME shows the statement of one"),
    (".indexes", "\\di lists indexes"),
    (".indices", "\\di lists indexes"),
    (".databases", "\\l lists the databases"),
    (".open", "the shell has one database: start it with `rowmill FOLDER`"),
    (".mode", "\\mode FORMAT chooses the format of results"),
    (".headers", "results always have their names; \\mode FORMAT chooses the format"),
    (".header", "results always have their names; \\mode FORMAT chooses the format"),
    (".output", "\\o FILE writes results to a file"),
    (".once", "\\g FILE writes one result to a file"),
    (".read", "\\i FILE runs the SQL of a file"),
    (".import", "\\copy TABLE FROM FILE loads a file"),
    (".export", "\\copy TABLE TO FILE writes a file"),
    (".dump", "BACKUP DATABASE TO 'folder' copies the database, and \\copy TABLE TO FILE writes a table"),
    (".backup", "BACKUP DATABASE TO 'folder' copies the database"),
    (".restore", "RESTORE DATABASE FROM 'folder' TO 'folder' makes a database of a backup"),
    (".timer", "\\timing switches the time of each statement on or off"),
    (".width", "tables fit the screen by themselves; \\all shows everything"),
    (".shell", "\\! COMMAND runs a command of the system"),
    (".system", "\\! COMMAND runs a command of the system"),
    (".show", "SHOW ALL lists the settings"),
    (".help", "\\? lists the commands"),
    (".quit", "\\q ends the shell"),
    (".exit", "\\q ends the shell"),
    ("\\c", "the shell has one database: start it with `rowmill FOLDER`"),
    ("\\connect", "the shell has one database: start it with `rowmill FOLDER`"),
    ("\\du", "the shell works without users"),
    ("\\pset", "\\mode FORMAT chooses the format, \\x one value per line, \\all whole tables"),
    ("\\a", "\\mode csv prints results without alignment"),
    ("\\t", "\\mode csv prints results for programs"),
    ("\\s", "the history is in ~/.rowmill_history"),
    ("\\w", "\\e FILE edits a file"),
    ("\\ir", "\\i FILE runs the SQL of a file"),
    ("\\password", "the shell works without users"),
];

/// Returns what helps a user who types a command of another shell. Every word with a dot at its beginning is one.
pub(super) fn answer(name: &str) -> Option<&'static str> {
    let known = HABITS.iter().find(|(habit, _)| habit.eq_ignore_ascii_case(name)).map(|(_, answer)| *answer);
    let is_command = |name: &str| name.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    known.or_else(|| is_command(name).then_some("commands start with a backslash; \\? lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::COMMANDS;

    #[test]
    fn no_command_of_ours_is_a_habit() {
        for name in COMMANDS.iter().flat_map(|command| command.names) {
            assert!(answer(name).is_none(), "{name}");
        }
    }

    #[test]
    fn words_with_a_dot_are_commands_of_other_shells() {
        assert_eq!(answer(".TABLES"), Some("\\dt lists tables"));
        assert!(answer(".nonsense").is_some());
        assert!(answer(".5").is_none() && answer("SELECT").is_none() && answer(".").is_none());
    }
}
