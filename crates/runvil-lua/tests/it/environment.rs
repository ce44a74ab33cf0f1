//! What a block finds in its VM.

use serde_json::json;

use crate::support::{block, params, returned, run, vm};

#[test]
fn builders_views_and_walks() {
    assert_eq!(
        run("messages:system('s'):user('hi', {a=1}):assistant('', {{id='c', name='n', arguments={q='x'}}}):tool('r', 'c')
             local seen = {}
             for i, record in pairs(messages) do seen[#seen + 1] = i .. ':' .. record.role .. ':' .. record.content end
             return #messages .. '|' .. table.concat(seen, ' ') .. '|' .. messages[2].meta.a .. '|' .. messages[3].tool_calls[1].arguments.q"),
        "4|1:system:s 2:user:hi 3:assistant: 4:tool:r|1|x"
    );
}

#[test]
fn guards_raise_catchable_values() {
    assert_eq!(
        run("local ok, err = pcall(function() messages = {} end)
             return tostring(ok) .. '|' .. err.kind .. '|' .. tostring(err) .. '|' .. #messages"),
        "false|lua|messages is the section's conversation and cannot be reassigned; add records with append(record), \
         or rewrite history with models.compact(compactor, reason)|0"
    );
    assert_eq!(
        run("local ok, err = pcall(function() messages:user(5) end) return tostring(err)"),
        "messages[1] content must be a string or a non-empty array of content parts"
    );
    assert_eq!(
        run("local ok, err = pcall(function() messages:user('x', type) end) return tostring(err) .. #messages"),
        "messages[1] meta must be JSON-representable: unsupported value type `function`0"
    );
}

#[test]
fn an_uncaught_error_names_the_file_line() {
    let text = run("local x = 1\nmessages:user(5)");
    assert!(text.starts_with("<failed lua: section `Only` prologue:12: messages[1] content must"), "{text}");
    assert!(text.contains("section `Only` prologue:12: in main chunk"), "{text}");
    let text = run("\n\nerror('boom')");
    assert!(text.starts_with("<failed lua: section `Only` prologue:13: boom\n"), "{text}");
}

#[test]
fn prose_var_and_arguments() {
    let mut vm = vm();
    let end = block(
        &mut vm,
        "var.x = {a = {1, 2}} return prose .. argv.query .. #argv.items .. args",
        "Q: {{ var.x }} {{ argv.query }}",
    );
    assert_eq!(returned(end), r#"Q: {"a":[1,2]} paperspapers0the args"#);
    assert_eq!(vm.var().unwrap(), json!({"x": {"a": [1, 2]}}));
    let _ = params(json!({}));
}

#[test]
fn ordered_pairs() {
    assert_eq!(
        run("local t, out = {'a', 'b', z = 1, [true] = 2, [10] = 3}, {}
             for k in pairs(t) do out[#out + 1] = tostring(k) end
             return table.concat(out, ' ')"),
        "1 2 true 10 z"
    );
}

#[test]
fn compactions() {
    assert_eq!(
        run("messages:user('u1'):assistant('a1'):user('u2')
             models.compact(function(reason) messages:replace(3, 3, {role = 'user', content = 'u2b'}) end, 'why')
             local ok, err = pcall(models.compact, function() messages:replace(1, 1) error('gave up', 0) end, 'why')
             local ok2, err2 = pcall(messages.replace, messages, 1, 1)
             return messages[3].content .. err .. #messages .. tostring(err2)"),
        "u2bgave up3replace works only inside a compactor; rewrite history with models.compact(compactor, reason)"
    );
}
