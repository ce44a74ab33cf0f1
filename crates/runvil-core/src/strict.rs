//! Tool schemas that a provider can enforce.

use serde_json::{Map, Value};

/// Marks the tools of a request body as `strict` whose schema a provider can enforce to the letter.
///
/// That is one in which every object lists all of its properties as required and allows no others. Providers refuse a
/// whole request for one tool that is marked and cannot be enforced, so any other tool is left as it is.
pub fn mark_strict_tools(tools: &mut Value) {
    for tool in tools.as_array_mut().into_iter().flatten() {
        let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) else { continue };
        if !function.contains_key("strict") && function.get("parameters").is_some_and(is_enforceable) {
            function.insert("strict".to_owned(), Value::Bool(true));
        }
    }
}

/// Whether a schema, with every schema inside it, can be enforced.
fn is_enforceable(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let is_object =
                members.get("type").is_some_and(|kind| kind == "object") || members.contains_key("properties");
            (!is_object || is_closed(members)) && members.iter().all(|(_, inner)| is_enforceable(inner))
        }
        Value::Array(inner) => inner.iter().all(is_enforceable),
        _ => true,
    }
}

/// Whether an object's schema requires all of its properties and allows no others.
fn is_closed(schema: &Map<String, Value>) -> bool {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.into_iter().flatten().all(|(name, _)| required.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_marked(parameters: &Value) -> bool {
        let mut tools = json!([{"type": "function", "function": {"name": "n", "parameters": parameters}}]);
        mark_strict_tools(&mut tools);
        tools[0]["function"].get("strict") == Some(&json!(true))
    }

    #[test]
    fn only_what_can_be_enforced_is_marked() {
        let text = json!({"type": "string"});
        let closed =
            json!({"type": "object", "properties": {"a": text}, "required": ["a"], "additionalProperties": false});
        let open = json!({"type": "object", "properties": {"a": text}, "required": ["a"]});
        let optional = json!({"type": "object", "properties": {"a": text}, "additionalProperties": false});
        let wrap = |inner: &Value| {
            json!({"type": "object", "properties": {"x": {"type": "array", "items": inner}}, "required": ["x"],
                   "additionalProperties": false})
        };
        assert!(is_marked(&closed) && is_marked(&wrap(&closed)));
        assert!(is_marked(&json!({"type": "object", "properties": {}, "additionalProperties": false})));
        for other in [&open, &optional, &json!({"type": "object"})] {
            assert!(!is_marked(other) && !is_marked(&wrap(other)), "{other}");
        }
    }

    #[test]
    fn what_a_tool_says_itself_is_kept() {
        let tools = json!([{"function": {"strict": false, "parameters": {}}}, {"type": "web_search"}, 7]);
        let mut marked = tools.clone();
        mark_strict_tools(&mut marked);
        assert_eq!(marked, tools);
        mark_strict_tools(&mut Value::Null);
    }
}
