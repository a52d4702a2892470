//! The fields of a rule that say how it is used and what follows: `shadow`, `action`, `limits`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::RulesReader;
use crate::treatment::Treatment;

const SHADOW: &str = "shadow";
const ACTION: &str = "action";
const LIMITS: &str = "limits";
const IN_A_ROW: &str = "inARow";
const IN_A_ROW_MAX: RangeInclusive<i64> = 1..=1000;
/// The next attempt goes to other nodes.
const ELSEWHERE: &str = "elsewhere";

impl RulesReader {
    pub(super) fn treatment(&mut self, map: &Map<String, Value>, path: &str) -> Treatment {
        Treatment {
            is_in_shadow: self.shadow(map, path),
            goes_elsewhere: self.choice(map, path, ACTION, &[ELSEWHERE]).is_some(),
            in_a_row_max: self.limits(map, path),
        }
    }

    fn shadow(&mut self, map: &Map<String, Value>, path: &str) -> bool {
        match map.get(SHADOW) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(shadow)) => *shadow,
            Some(_) => {
                self.problem(&format!("{path}.{SHADOW}"), "must be true or false");
                false
            }
        }
    }

    fn limits(&mut self, map: &Map<String, Value>, path: &str) -> Option<u32> {
        let path = format!("{path}.{LIMITS}");
        let value = map.get(LIMITS).filter(|value| !value.is_null())?;
        let map = self.mapping(value, &path)?;
        self.known_fields(map, &path, &[IN_A_ROW]);
        let limit = self.integer(map, &path, IN_A_ROW, &IN_A_ROW_MAX);
        if limit.is_none() && !map.contains_key(IN_A_ROW) {
            self.problem(
                &path,
                "needs inARow: so many attempts in a row that end so are the last",
            );
        }
        limit.and_then(|limit| u32::try_from(limit).ok())
    }
}
