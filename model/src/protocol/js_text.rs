//! Values as JavaScript writes them, because upstream renders templates with it.

use serde_json::{Number, Value};

/// The text a value is rendered as; `None` for null, which counts as unknown.
pub(super) fn of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(of_number(number)),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(|i| of(i).unwrap_or_default()).collect();
            Some(texts.join(","))
        }
        Value::Object(_) => Some("[object Object]".to_owned()),
    }
}

/// Integers stay exact, where JavaScript would round those beyond 2^53.
fn of_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => of_float(float),
        _ => number.to_string(),
    }
}

/// ECMAScript's Number::toString: plain digits between 1e-7 and 1e21, else an exponent.
fn of_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(-7..=20) if float.abs() >= 1e-6 || float == 0.0 => format!("{float}"),
        Ok(exponent) if exponent >= 0 => format!("{digits}e+{exponent}"),
        Ok(exponent) => format!("{digits}e{exponent}"),
        Err(_) => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_read_as_in_javascript() {
        let cases = [
            (json!(0.1), "0.1"),
            (json!(1e-6), "0.000001"),
            (json!(1e-7), "1e-7"),
            (json!(2.5e-9), "2.5e-9"),
            (json!(1e21), "1e+21"),
            (json!(1.5e20), "150000000000000000000"),
            (json!(-3.25), "-3.25"),
            (json!(9007199254740993_u64), "9007199254740993"),
        ];
        for (value, text) in cases {
            assert_eq!(of(&value).as_deref(), Some(text));
        }
    }

    #[test]
    fn other_values_read_as_in_javascript() {
        let cases = [
            (json!(null), None),
            (json!(false), Some("false")),
            (json!([1, null, "a", [2, 3]]), Some("1,,a,2,3")),
            (json!({}), Some("[object Object]")),
        ];
        for (value, text) in cases {
            assert_eq!(of(&value).as_deref(), text);
        }
    }
}
