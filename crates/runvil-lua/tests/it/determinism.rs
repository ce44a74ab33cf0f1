//! What a block shows does not depend on addresses, hash seeds or the clock.

use crate::support::run;

fn stays(source: &str) {
    let first = run(source);
    assert!(!first.starts_with("<failed"), "{source}: {first}");
    for _ in 0..5 {
        assert_eq!(run(source), first, "{source}");
    }
}

#[test]
fn texts_show_no_addresses() {
    let source = "
        local ok, err = pcall(log)
        local values = { {}, function() end, print or error, messages, json.null, json.array(), var, sys, argv, string, err, _G }
        local texts = {}
        for i, value in ipairs(values) do
          texts[#texts + 1] = tostring(value)
          texts[#texts + 1] = string.format('%s|%10s', value, value)
        end
        local ok, err = pcall(function() return {} .. 'x' end)
        local ok, err2 = pcall(error, setmetatable({}, { __tostring = function(self) return tostring({}) end }))
        texts[#texts + 1] = err .. tostring(err2)
        return table.concat(texts, ' ')";
    let text = run(source);
    assert!(!text.contains("0x"), "{text}");
    stays(source);
}

#[test]
fn walks_do_not_depend_on_hashes() {
    stays(
        "local out, t = {}, {}
         for i = 1, 200 do t['key' .. (i * 7919 % 1009)] = i t[i * 1.5] = i t[-i] = i end
         for k, v in pairs(t) do out[#out + 1] = tostring(k) .. tostring(v) end
         for k, v in next, t do out[#out + 1] = tostring(k) end
         return table.concat(out, ' ') .. json.encode({ b = 1, a = { z = 1, y = 2 } })",
    );
}

#[test]
fn sorting_does_not_depend_on_the_clock() {
    // Equal keys keep the order the algorithm gives them; a contradictory order gives the same error.
    stays(
        "local t = {}
         for i = 1, 3000 do t[i] = { key = i < 1500 and i // 100 or 3000 - i, at = i } end
         table.sort(t, function(a, b) return a.key < b.key end)
         local out = {}
         for i, item in ipairs(t) do out[i] = item.at end
         local numbers = {}
         for i = 1, 2000 do numbers[i] = i % 2 == 0 and i or i + 0.0 end
         local ok, err = pcall(table.sort, numbers, function(a, b) return a * 7919 % 13 > b * 7919 % 7 end)
         return table.concat(out, ' ') .. tostring(ok) .. tostring(err) .. table.concat(numbers, ' ')",
    );
}

#[test]
fn sorted_tables_are_sorted() {
    assert_eq!(
        run("local function check(size, make)
               local t, sum = {}, 0
               for i = 1, size do t[i] = make(i) sum = sum + t[i] end
               table.sort(t)
               for i = 1, size do
                 sum = sum - t[i]
                 if i > 1 and t[i - 1] > t[i] then return 'unsorted ' .. size end
               end
               if sum ~= 0 or #t ~= size then return 'changed ' .. size end
               table.sort(t, function(a, b) return a > b end)
               for i = 2, size do if t[i - 1] < t[i] then return 'unsorted down ' .. size end end
               return ''
             end
             local out = {}
             for size = 0, 40 do
               out[#out + 1] = check(size, function(i) return i end)
               out[#out + 1] = check(size, function(i) return -i end)
               out[#out + 1] = check(size, function(i) return i * 7919 % 31 end)
               out[#out + 1] = check(size, function() return 1 end)
             end
             for _, size in ipairs({ 1000, 5000 }) do
               out[#out + 1] = check(size, function(i) return i end)
               out[#out + 1] = check(size, function(i) return i < size / 2 and i or size - i end)
               out[#out + 1] = check(size, function(i) return math.random(100) end)
             end
             local words = { 'b', 'a', '', 'B', 'ab' }
             table.sort(words)
             return table.concat(out) .. table.concat(words, ',')"),
        ",B,a,ab,b"
    );
}

#[test]
fn random_numbers_come_from_the_seed() {
    stays(
        "local out = {} for i = 1, 20 do out[i] = math.random(1 << 30) end math.randomseed() return table.concat(out, ' ') .. math.random(1 << 30)",
    );
}
