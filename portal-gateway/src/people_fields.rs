//! Fields of users and groups: each is checked as far as its text alone tells what is wrong.

use std::collections::BTreeSet;
use std::str::FromStr;

use muster_model::id::InvalidName;
use muster_model::people::{EMAIL_BYTES_MAX, NewPassword, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN};
use muster_model::secret::Hidden;
use muster_model::user_token::{
    APPLICATION_LIFE_MAX_S, APPLICATION_LIFE_MIN_S, NewUserToken, token_name_problem,
};

use crate::fields::Fields;

/// Hexadecimal digits of OpenPAI's hash of a password.
const HASH_DIGITS: usize = 128;

impl Fields {
    /// A name that must be there.
    pub(crate) fn name<T: FromStr<Err = InvalidName>>(&mut self, name: &str) -> Option<T> {
        let text = self.text(name);
        if text.is_empty() {
            return None;
        }
        let parsed = text.parse();
        if let Err(error) = &parsed {
            self.wrong(name, &format!("is no {error}"));
        }
        parsed.ok()
    }

    /// Names, which may be absent or none.
    pub(crate) fn optional_names<T>(&mut self, name: &str) -> Option<BTreeSet<T>>
    where
        T: FromStr<Err = InvalidName> + Ord,
    {
        let list = self.optional_list(name)?;
        let names: Result<_, InvalidName> = list.iter().map(|text| text.parse()).collect();
        match names {
            Ok(names) => Some(names),
            Err(error) => {
                self.wrong(name, &format!("holds a wrong name: {error}"));
                Some(BTreeSet::new())
            }
        }
    }

    /// An e-mail address, which may be absent or empty.
    pub(crate) fn optional_email(&mut self, name: &str) -> Option<String> {
        let email = self.optional_text(name)?;
        if !email.is_empty() && !is_email(&email) {
            let rule = format!("must be a valid email of at most {EMAIL_BYTES_MAX} bytes");
            self.wrong(name, &rule);
        }
        Some(email)
    }

    /// A password to be set, which may be absent.
    pub(crate) fn optional_password(&mut self, name: &str) -> Option<NewPassword> {
        let password = self.optional_text(name)?;
        if password.chars().count() < PASSWORD_CHARS_MIN {
            let rule = format!("length must be at least {PASSWORD_CHARS_MIN} characters long");
            self.wrong(name, &rule);
        }
        if password.len() > PASSWORD_BYTES_MAX {
            let rule = format!("length must be at most {PASSWORD_BYTES_MAX} bytes");
            self.wrong(name, &rule);
        }
        Some(NewPassword::Plain(Hidden(password)))
    }

    /// What a token is called, which may be absent or empty.
    pub(crate) fn token_name(&mut self) -> String {
        let name = self.optional_text("name").unwrap_or_default();
        match token_name_problem(&name) {
            Some(problem) => self.wrong("name", &problem),
            None => name,
        }
    }

    /// An application token: its name, and how long it works.
    pub(crate) fn new_token(&mut self) -> NewUserToken {
        let bounds = [APPLICATION_LIFE_MIN_S, APPLICATION_LIFE_MAX_S].map(u64::cast_signed);
        let life_s = self.optional_integer("expiration", bounds[0], bounds[1]);
        NewUserToken {
            name: self.token_name(),
            life_s: life_s.map(i64::unsigned_abs),
        }
    }

    /// How a new user logs in: by `password`, or by OpenPAI's hash of it in `passwordHash`.
    pub(crate) fn new_password(&mut self) -> NewPassword {
        if !self.has("passwordHash") {
            self.demand(&["password"]);
            return self
                .optional_password("password")
                .unwrap_or(NewPassword::None);
        }
        if self.has("password") {
            self.wrong("passwordHash", "is not allowed beside \"password\"");
        }
        self.optional_password("password");
        let hash = self.text("passwordHash");
        if hash.len() != HASH_DIGITS || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            let rule = format!("must be OpenPAI's hash: {HASH_DIGITS} hexadecimal digits");
            self.wrong("passwordHash", &rule);
        }
        NewPassword::OpenPai(Hidden(hash.to_ascii_lowercase()))
    }
}

/// Whether a text has the shape of an address. Whether it is one only a mail to it would show.
fn is_email(text: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>(),;:\"\\".contains(c);
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let labels = || domain.split('.');
    text.len() <= EMAIL_BYTES_MAX
        && text.matches('@').count() == 1
        && text.chars().all(is_plain)
        && !local.is_empty()
        && labels().all(|label| !label.is_empty() && !label.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, want) in [
            ("ann@example.com", true),
            ("a.b+c@mail.example.com", true),
            ("root@localhost", true),
            ("ann", false),
            ("@example.com", false),
            ("ann@", false),
            ("ann@example..com", false),
            ("a@b@example.com", false),
            ("a b@example.com", false),
            ("a\nb@example.com", false),
            ("<ann@example.com>", false),
        ] {
            assert_eq!(is_email(text), want, "{text:?}");
        }
        assert!(!is_email(&format!("{}@b.c", "a".repeat(EMAIL_BYTES_MAX))));
    }
}
