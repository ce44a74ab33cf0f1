//! Data that goes from JSON to Lua and back, and from Lua to JSON and back, is the same data.

use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

use crate::support::{block, environment, params, returned, vm};
use runvil_lua::section::CancelFlag;
use runvil_lua::vm::SectionVm;

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |number| Number::from_f64(number).map(Value::Number)),
        prop::sample::select(vec![0.0, -0.0, 1.0, 1e15, 1e16, 1e300, 5e-324, 0.1, -2.5]).prop_map(Value::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", "[a-c0-2]{0,3}", Just("kind".to_owned()), Just("\0\n\"\\\u{7f}\u{2028}é😀".to_owned())]
}

fn data() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text().prop_map(Value::from)];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The value with the keys of every object in byte order, as Lua gives them back.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(entries.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// A Lua expression for the value, written without `json.decode`.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "json.null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(i64::MIN) => "math.mininteger".to_owned(),
            Some(integer) => integer.to_string(),
            // A hexadecimal-free form with every digit; Lua reads it back exactly.
            None => format!("{:e}", number.as_f64().unwrap()),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("json.array({{{}}})", items.iter().map(literal).collect::<Vec<_>>().join(","))
        }
        Value::Object(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("[{}]={}", quoted(key), literal(value))).collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("\\{byte:03}")).collect();
    format!("\"{}\"", bytes.concat())
}

/// A Lua function that compares two values deeply, numbers by type too.
const SAME: &str = "
local function same(a, b)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then return false end
  if type(a) ~= 'table' then return a == b and tostring(a) == tostring(b) end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
";

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_decoded_and_encoded_is_the_same(value in data()) {
        let text = value.to_string();
        let source = format!("return json.encode(json.decode({}))", quoted(&text));
        let encoded = returned(block(&mut vm(), &source, ""));
        prop_assert_eq!(encoded, sorted(&value).to_string());
    }

    #[test]
    fn lua_encoded_and_decoded_is_the_same(value in data()) {
        let source = format!(
            "{SAME} local value = {} local again = json.decode(json.encode(value)) \
             return tostring(same(value, again)) .. tostring(json.encode(again) == json.encode(value))",
            literal(&value)
        );
        prop_assert_eq!(returned(block(&mut vm(), &source, "")), "truetrue");
    }

    #[test]
    fn var_gives_back_what_it_got(value in data()) {
        // From the Engine to Lua and back, then through an assignment.
        let var = json!({ "value": value });
        let mut vm = SectionVm::new(environment(64 << 20, CancelFlag::default()), params(var.clone())).unwrap();
        prop_assert_eq!(vm.var().unwrap(), sorted(&var));
        let source = "local value = var.value var.copy = value return json.encode(var.copy)";
        let encoded = returned(block(&mut vm, source, ""));
        prop_assert_eq!(encoded, sorted(&value).to_string());
        let after = vm.var().unwrap();
        prop_assert_eq!(&after["copy"], &sorted(&value));
        prop_assert_eq!(&after["value"], &sorted(&value));
    }

    #[test]
    fn metadata_gives_back_what_it_got(value in data().prop_filter("absent", |value| !value.is_null())) {
        let text = value.to_string();
        prop_assume!(sorted(&value).to_string().len() <= 8192);
        let source = format!("messages:user('x', json.decode({})) return json.encode(messages[1].meta)", quoted(&text));
        prop_assert_eq!(returned(block(&mut vm(), &source, "")), sorted(&value).to_string());
    }
}
