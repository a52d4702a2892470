//! Users in a CSV file (RFC 4180). The first line names the columns, in any order.

use std::collections::BTreeMap;
use std::fmt;

use csv::{ReaderBuilder, StringRecord};
use muster_model::id::{GroupName, UserName, VcName};
use muster_model::people::EMAIL_BYTES_MAX;
use muster_model::secret::Hidden;

use crate::name_list::{NameList, checked, listed};
use crate::password;

/// The columns that a file may have.
const COLUMNS: [(&str, Column); 7] = [
    ("username", Column::Username),
    ("email", Column::Email),
    ("password", Column::Password),
    ("passwordHash", Column::PasswordHash),
    ("admin", Column::Admin),
    ("virtualCluster", Column::VirtualCluster),
    ("group", Column::Group),
];
/// Hexadecimal digits of a hash: 64 bytes.
const HASH_DIGITS: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Username,
    Email,
    Password,
    PasswordHash,
    Admin,
    VirtualCluster,
    Group,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = COLUMNS.iter().find(|(_, column)| column == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// A user of the file. What is `None` or empty was not said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CsvUser {
    pub(super) line: u64,
    pub(super) name: String,
    pub(super) email: Option<String>,
    pub(super) password: Option<Hidden<String>>,
    /// The hash that OpenPAI keeps of a password.
    pub(super) hash: Option<Hidden<String>>,
    pub(super) admin: Option<bool>,
    pub(super) vcs: NameList,
    pub(super) groups: NameList,
}

/// What is wrong with a file, where, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvProblem {
    line: u64,
    column: Option<Column>,
    problem: String,
}

impl fmt::Display for CsvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl CsvProblem {
    fn of_line(line: u64, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self {
            line,
            column: None,
            problem,
        }
    }

    fn at(line: u64, column: Column, problem: String) -> Self {
        Self {
            line,
            column: Some(column),
            problem,
        }
    }

    /// A new user who could not log in.
    pub(super) fn no_password(user: &CsvUser) -> Self {
        let problem = format!(
            "{} is a new user and has none; write one here, or the hash in the column passwordHash",
            user.name
        );
        Self::at(user.line, Column::Password, problem)
    }

    /// A group that does not exist.
    pub(super) fn no_group(user: &CsvUser, group: &str) -> Self {
        let problem = format!("there is no group {group}; add it first: muster group add {group}");
        Self::at(user.line, Column::Group, problem)
    }

    /// A virtual cluster that does not exist.
    pub(super) fn no_vc(user: &CsvUser, vc: &str) -> Self {
        let problem =
            format!("there is no virtual cluster {vc}; `muster vc list` shows those that exist");
        Self::at(user.line, Column::VirtualCluster, problem)
    }
}

/// Reads the users of a file, or finds everything that is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<CsvUser>, Vec<CsvProblem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The reader counts lines by line feeds.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let rows = rows(&text)?;
    let Some(((line, header), rows)) = rows.split_first() else {
        let problem =
            "the file is empty; its first line names the columns, such as username,password";
        return Err(vec![CsvProblem::of_line(1, problem)]);
    };
    let columns = columns(*line, header)?;
    let mut problems = Vec::new();
    let mut users = Vec::new();
    for (line, row) in rows {
        match user(*line, row, &columns) {
            Ok(user) => users.push(user),
            Err(found) => problems.extend(found),
        }
    }
    problems.extend(doubles(&users));
    problems.sort_by_key(|problem| problem.line);
    match problems.is_empty() {
        true => Ok(users),
        false => Err(problems),
    }
}

/// The rows that have something, each with the line that it begins in.
fn rows(text: &str) -> Result<Vec<(u64, StringRecord)>, Vec<CsvProblem>> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| vec![CsvProblem::of_line(1, error.to_string())])?;
        let line = row.position().map_or(1, |at| {
            // Empty lines before a row are read with it.
            let rest = usize::try_from(at.byte())
                .ok()
                .and_then(|at| text.get(at..));
            let empty = rest.map_or(0, |rest| rest.len() - rest.trim_start_matches('\n').len());
            at.line() + empty as u64
        });
        // A spreadsheet writes an empty row as separators alone.
        if row.iter().any(|field| !field.trim().is_empty()) {
            rows.push((line, row));
        }
    }
    let is_open = text.matches('"').count() % 2 == 1;
    match rows.last() {
        Some((line, _)) if is_open => Err(vec![CsvProblem::of_line(
            *line,
            "a quoted value does not end; close it with \", and write a \" within it as \"\"",
        )]),
        _ => Ok(rows),
    }
}

fn columns(line: u64, header: &StringRecord) -> Result<Vec<Column>, Vec<CsvProblem>> {
    let allowed = COLUMNS.map(|(name, _)| name).join(", ");
    let problem = |text: String| CsvProblem::of_line(line, text);
    if header.len() == 1 && header.iter().any(|name| name.contains([';', '\t'])) {
        let why = "the columns are not separated by commas; export the file as CSV with commas";
        return Err(vec![problem(why.to_owned())]);
    }
    let mut columns = Vec::new();
    let mut problems = Vec::new();
    for name in header.iter().map(str::trim) {
        let found = COLUMNS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        match found {
            Some((name, column)) if columns.contains(column) => {
                problems.push(problem(format!(
                    "the column {name} is named twice; remove one"
                )));
            }
            Some((_, column)) => columns.push(*column),
            None => problems.push(problem(format!(
                "{name:?} is no column; remove it, or name it as one of {allowed}"
            ))),
        }
    }
    if problems.is_empty() && !columns.contains(&Column::Username) {
        let why =
            format!("the column username is missing; the first line names the columns: {allowed}");
        problems.push(problem(why));
    }
    match problems.is_empty() {
        true => Ok(columns),
        false => Err(problems),
    }
}

fn user(line: u64, row: &StringRecord, columns: &[Column]) -> Result<CsvUser, Vec<CsvProblem>> {
    let (has, needs) = (row.len(), columns.len());
    if has != needs {
        let problem = format!(
            "it has {has} values, and the first line names {needs} columns; put a value that holds a comma in quotes"
        );
        return Err(vec![CsvProblem::of_line(line, problem)]);
    }
    let mut user = CsvUser {
        line,
        ..CsvUser::default()
    };
    let mut problems = Vec::new();
    for (&column, field) in columns.iter().zip(row) {
        if let Err(problem) = fill(&mut user, column, field) {
            problems.push(CsvProblem::at(line, column, problem));
        }
    }
    if user.password.is_some() && user.hash.is_some() {
        let problem = "there is a password as well; give one of both".to_owned();
        problems.push(CsvProblem::at(line, Column::PasswordHash, problem));
    }
    match problems.is_empty() {
        true => Ok(user),
        false => Err(problems),
    }
}

/// Takes one value over. A password is taken as it is, anything else without blanks around it.
fn fill(user: &mut CsvUser, column: Column, field: &str) -> Result<(), String> {
    let text = field.trim();
    match column {
        Column::Username if text.is_empty() => return Err("it is empty; name the user".to_owned()),
        Column::Username => user.name = checked::<UserName>(text)?,
        Column::Password if !field.is_empty() => user.password = Some(password_of(field)?),
        _ if text.is_empty() => {}
        Column::Password => {}
        Column::Email => user.email = Some(email(text)?),
        Column::PasswordHash => user.hash = Some(hash(text)?),
        Column::Admin => user.admin = Some(truth(text)?),
        Column::VirtualCluster => user.vcs = listed(text, ';', checked::<VcName>)?,
        Column::Group => user.groups = listed(text, ';', checked::<GroupName>)?,
    }
    Ok(())
}

fn password_of(field: &str) -> Result<Hidden<String>, String> {
    match password::problem(field) {
        Some(problem) => Err(problem),
        None => Ok(Hidden(field.to_owned())),
    }
}

fn email(text: &str) -> Result<String, String> {
    let has_sides = text
        .split_once('@')
        .is_some_and(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'));
    let is_one_word = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    match has_sides && is_one_word && text.len() <= EMAIL_BYTES_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no e-mail address; write name@host, or leave it empty"
        )),
    }
}

fn hash(text: &str) -> Result<Hidden<String>, String> {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    match digits == text.len() && digits == HASH_DIGITS {
        true => Ok(Hidden(text.to_ascii_lowercase())),
        false => Err(format!(
            "it is no hash of OpenPAI, which has {HASH_DIGITS} hexadecimal digits; copy all of it, or give a \
             password instead"
        )),
    }
}

fn truth(text: &str) -> Result<bool, String> {
    let lower = text.to_ascii_lowercase();
    lower
        .parse()
        .map_err(|_| format!("{text:?} is neither true nor false; write one of these"))
}

/// Users whose name is in the file twice.
fn doubles(users: &[CsvUser]) -> Vec<CsvProblem> {
    let mut first: BTreeMap<&str, u64> = BTreeMap::new();
    let mut problems = Vec::new();
    for user in users {
        if let Some(line) = first.get(user.name.as_str()) {
            let problem = format!(
                "{} is in line {line} already; remove one of the two",
                user.name
            );
            problems.push(CsvProblem::at(user.line, Column::Username, problem));
        } else {
            first.insert(&user.name, user.line);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let problems = parse(text).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_from_a_spreadsheet_is_read() {
        let hash = "0aF".repeat(50)[..128].to_owned();
        let text = format!(
            "\u{feff}Email,USERNAME,password,PasswordHash,admin,virtualCluster,group\r\n\
             ada@example.org,ada,\"se\"\"cr,et \",,TRUE,\"vision; speech\",research\r\n\
             ,,,,,,\r\n\
             \r\n\
             , bob.b ,,{hash},,,\r\n"
        );
        let users = parse(&text).unwrap();
        let ada = CsvUser {
            line: 2,
            name: "ada".to_owned(),
            email: Some("ada@example.org".to_owned()),
            password: Some(Hidden("se\"cr,et ".to_owned())),
            hash: None,
            admin: Some(true),
            vcs: NameList(vec!["vision".to_owned(), "speech".to_owned()]),
            groups: NameList(vec!["research".to_owned()]),
        };
        let bob = CsvUser {
            line: 5,
            name: "bob.b".to_owned(),
            hash: Some(Hidden(hash.to_ascii_lowercase())),
            ..CsvUser::default()
        };
        assert_eq!(users, [ada, bob]);
    }

    #[test]
    fn every_problem_has_its_place_and_a_remedy() {
        let text = "username,email,password,passwordHash,admin,virtualCluster,group\n\
                    a b,nobody,short,12,maybe,v-c,ok\n\
                    ada,,secret,,,,\n\
                    \n\
                    ada,,secret,,,,\n\
                    bob,x\n\
                    ,,secret,,,,\n";
        let expect = [
            ("line 2, column username: ", "use letters"),
            ("line 2, column email: ", "name@host"),
            ("line 2, column password: ", "choose a longer one"),
            ("line 2, column passwordHash: ", "128 hexadecimal digits"),
            ("line 2, column admin: ", "neither true nor false"),
            ("line 2, column virtualCluster: ", "use letters"),
            ("line 5, column username: ", "is in line 3 already"),
            ("line 6: ", "it has 2 values"),
            ("line 7, column username: ", "it is empty"),
        ];
        let problems = problems(text);
        assert_eq!(problems.len(), expect.len(), "{problems:#?}");
        for (problem, (place, remedy)) in problems.iter().zip(expect) {
            assert!(
                problem.starts_with(place) && problem.contains(remedy),
                "{problem}"
            );
        }
        assert!(!problems.concat().contains("short"), "no password is shown");
    }

    #[test]
    fn a_header_that_cannot_be_says_which_columns_there_are() {
        for (text, told) in [
            ("", "line 1: the file is empty"),
            ("\n\nemail\n", "line 3: the column username is missing"),
            (
                "username,phone\n",
                "\"phone\" is no column; remove it, or name it as one of username",
            ),
            ("username,Username\n", "the column username is named twice"),
            ("username;email\nada;\n", "not separated by commas"),
            (
                "username,password\nada,\"secret\nbob,secret\n",
                "line 2: a quoted value does not end",
            ),
        ] {
            let problems = problems(text);
            assert!(
                problems.len() == 1 && problems[0].contains(told),
                "{text:?}: {problems:?}"
            );
        }
        assert_eq!(parse("username\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_password_has_one_form() {
        let hash = "0".repeat(128);
        let problems = problems(&format!(
            "username,password,passwordHash\nada,secret,{hash}\n"
        ));
        assert!(problems[0].contains("give one of both"), "{problems:?}");
    }
}
