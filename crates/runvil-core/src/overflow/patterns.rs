//! The wordings by which providers report a context overflow, and those that only look like it.

use std::iter;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

/// A count in a message, with or without separators of thousands.
const NUMBER: &str = r"[0-9]{1,3}(?:[,._'\u{a0}\u{2009}\u{202f}][0-9]{3})+|[0-9]+";

/// The token counts an overflow names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) used: Option<u64>,
    pub(super) limit: Option<u64>,
}

impl Counts {
    /// The counts in the groups `used` and `limit` of a match.
    pub(super) fn of(found: &Captures<'_>) -> Self {
        Self { used: count(found, "used"), limit: count(found, "limit") }
    }

    /// These counts, with what they lack from others.
    pub(super) fn or(self, others: Self) -> Self {
        Self { used: self.used.or(others.used), limit: self.limit.or(others.limit) }
    }

    fn is_empty(self) -> bool {
        self.used.is_none() && self.limit.is_none()
    }
}

/// The count in a named group; `None` when the group took no part, or holds anything but a count.
fn count(found: &Captures<'_>, group: &str) -> Option<u64> {
    static WHOLE: LazyLock<Regex> = LazyLock::new(|| regex(&format!(r"\A\s*(?:{NUMBER})\s*\z")));
    let text = found.name(group)?.as_str();
    if !WHOLE.is_match(text) {
        return None;
    }
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// What a failed answer is found to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    Overflow(Counts),
    Other,
}

/// Wordings of other failures, anywhere in a message.
const OTHER: [&str; 8] = [
    // Throttling.
    r"\b(?:rate|usage)[ _-]limit|\bthrottl|\btoo many requests\b",
    r"\btokens?[ -](?:per|a|/)[ -](?:second|minute|hour|day|month)\b|\btokens?/(?:s|sec|min|minute|h|hour|day)\b",
    r"\b(?:TPM|TPD|TPH|RPM|RPD)\b",
    r"\btoo many tokens, please wait\b",
    // A text or an id that is over-long by itself.
    r"\bstring too long\b|\bstring_too_long\b|\bstring should have at most\b",
    r#"\b(?:tool_call_id|tool_use_id|call_id|id)\b['"`\])]*[^.;]{0,60}\b(?:too long|longer than|maximum length|at most)\b"#,
    // A setting that no request could have.
    r"\bmaximum (?:allowed )?(?:number of )?output tokens\b|\bat most <n> (?:completion|output) tokens\b",
    r"\bmaximum tokens you requested exceeds?\b|\bvalid range of max_(?:completion_)?tokens\b",
];

/// The wording for a `max_tokens` setting that is at fault, at the start of a message. What remains of the window for
/// it may be the prompt's fault.
const SETTING: &str = concat!(
    r#"\A(?:the )?(?:invalid (?:value for )?)?['"`]?max_(?:completion_|output_|new_)?tokens\b"#,
    r"(?:(?s:.){0,200}?\bis too large: (?P<reserve><n>)\b(?s:.){0,80}?maximum context length is <limit> tokens",
    r"(?s:.){0,40}? has <used> input tokens)?",
);

/// Wordings of an overflow, each from the start of a message on. `<used>` and `<limit>` are counts that are kept, `<n>`
/// is any other.
const OVERFLOW: &[&str] = &[
    // OpenAI, Azure, DeepSeek, vLLM, OpenRouter
    r"(?:this|the) (?:model|endpoint)'s maximum (?:context|input|model) length is <limit>(?: input)? tokens\b(?:.{0,80}?\b(?:requested|resulted in|has|have|contains?|passed|used)\b[^0-9.]{0,40}<used>)?",
    r"(?:the )?maximum (?:context|input|prompt) length (?:is|of) <limit>\b(?:.{0,80}?\b(?:requested|resulted in|has|contains?|passed)\b[^0-9.]{0,40}<used>)?",
    r"you passed <used> input tokens\b.{0,120}?\bcontext length is only <limit> tokens",
    r"your (?:input|prompt|request|messages?) exceeds? the context (?:window|length|limit)\b",
    r"input tokens exceed the configured limit of <limit> tokens(?:.{0,40}?\bresulted in <used> tokens)?",
    r"the (?:decoder |encoder )?prompt \((?:total )?length <used>\) is (?:longer than the maximum model length of|too long to fit into the model \(context length) <limit>",
    // Anthropic
    r"prompt is too long(?::? ?<used> tokens > <limit> maximum)?",
    r"prompt is too long: <used>, model maximum context length: <limit>",
    r"input length and [`'\x22]?max_tokens[`'\x22]? exceeds? (?:the )?context limit(?:: <used> \+ <n> > <limit>)?",
    // Gemini, Vertex AI
    r"(?:the )?input token count(?: \(?<used>\)?)? exceeds the maximum number of tokens allowed(?: \(?<limit>\)?)?",
    r"unable to submit request because the input token count is <used> but (?:the )?model only supports up to <limit>",
    // xAI
    r"(?:this|the) model's maximum prompt length is <limit>(?: tokens)?(?: but the request contains <used> tokens)?",
    // SGLang, Together
    r"(?:the )?input \(<used> tokens\) is longer than the model's context length \(<limit> tokens\)",
    r"input length \(<used> tokens\) exceeds the maximum allowed length \(<limit> tokens\)",
    r"requested token count exceeds the model's maximum context length of <limit> tokens(?:. you requested a total of <used> tokens)?",
    // GitHub Copilot
    r"prompt token count of <used> exceeds the limit of <limit>",
    // Moonshot
    r"(?:your )?(?:request|input|prompt)?\s*exceeded model token limit(?:: <limit>(?: \(requested: <used>\))?)?",
    r"input token length too long",
    // Cerebras, Groq
    r"(?:please reduce the length of the messages or completions?\.?\s*)?current length is <used> while limit is <limit>",
    r"please reduce the length of the messages or completion",
    // Mistral
    r"prompt contains <used> tokens\b.{0,40}?\btoo large for model with <limit> maximum context length",
    // Cohere
    r"too many tokens: total number of tokens in the prompt cannot exceed <limit> - received <used>",
    r"too many tokens: (?:the )?total number of tokens must be (?:at most|less than) <limit>(?:.{0,20}?received <used>)?",
    r"too many tokens: size limit exceeded by <n> tokens(?:.{0,160}?limit for this model is <limit> tokens)?",
    // Bedrock
    r"input is too long for (?:the )?requested model",
    r"(?:400 bad request: )?too many input tokens\. max input tokens: <limit>, request input token count: <used>",
    r"number of input tokens exceeds maximum length",
    r"input is too long\b",
    // llama.cpp and its Python server
    r"(?:the )?request(?: \(<used> tokens\))? exceeds the available context size(?: \(<limit> tokens\))?",
    r"input prompt is too big compared to KV size",
    r"context size has been exceeded",
    r"requested tokens \(<used>\) exceed context window of <limit>",
    // Ollama
    r"(?:the )?(?:input|prompt) length exceeds (?:the )?(?:maximum |model's )?context length",
    r"prompt too long; exceeded (?:max )?context length",
    // LM Studio
    r"trying to keep the first <used> tokens when (?:the )?context (?:the )?overflows\b(?:.{0,80}?context length of only <limit> tokens)?",
    r"the number of tokens to keep from the initial prompt is greater than the context length(?:\s*\(n_keep: <used>\s*>=\s*n_ctx: <limit>\))?",
    r"reached context length of <limit> tokens with this model",
    // TGI
    r"[`'\x22]?inputs[`'\x22]? tokens \+ [`'\x22]?max_new_tokens[`'\x22]? must be <= <limit>(?:\. given: <used> [`'\x22]?inputs[`'\x22]? tokens)?",
    r"(?:given: )?<used> [`'\x22]?inputs[`'\x22]? tokens \+ (?:<n> )?[`'\x22]?max_new_tokens[`'\x22]? must be <= <limit>",
    r"[`'\x22]?inputs[`'\x22]? must have less than <limit> tokens(?:\. given: <used>)?",
    // TensorRT-LLM, Triton
    r"prompt length \(<used>\) exceeds maximum input length \(<limit>\)",
    r"the sum of prompt length \(<used>(?:\.0)?\)(?:, query length \(<n>\))? should not exceed max_num_tokens \(<limit>\)",
    // DashScope, Zhipu, MiniMax, StepFun
    r"range of input length should be \[<n>, ?<limit>\]",
    r"prompt exceeds max(?:imum)? length",
    r"(?:invalid params, )?context window exceeds limit",
    r"(?:the )?total length of (?:all )?(?:the )?messages is too long",
    // Many servers, in one form or another
    r"(?:the |your |this )?(?:input|prompt|request)(?: length)?(?: of)?(?: \(?<used>(?: tokens)?\)?)? exceeds the (?:maximum allowed input length|model's maximum (?:context|input|prompt) length)(?: of \(?<limit> tokens\)?)?",
    r"(?:the |your |this )?(?:total )?(?:input|prompt|request|conversation|messages?|chat history|token count|number of (?:input |prompt )?tokens)\b[^.:;'\x22`]{0,60}\b(?:exceeds?|exceeded|too (?:long|large|big) for|longer than|larger than|greater than)\b[^.:;'\x22`]{0,40}\b(?:context (?:length|window|size|limit)|maximum number of (?:input )?tokens)\b",
    r"(?:litellm\.)?ContextWindowExceededError\b",
];

/// The overflow wordings, compiled: all of them at once to find which match, and each to read its counts.
struct Wordings {
    set: RegexSet,
    each: Vec<Regex>,
}

static WORDINGS: LazyLock<Wordings> = LazyLock::new(|| {
    let patterns: Vec<String> = OVERFLOW.iter().map(|pattern| expand(&format!(r"\A\s*(?:{pattern})"))).collect();
    let set = RegexSet::new(&patterns).expect("the patterns of this file are valid");
    Wordings { set, each: patterns.iter().map(|pattern| regex(pattern)).collect() }
});

static OTHERS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(OTHER.iter().map(|pattern| expand(pattern))).expect("the patterns of this file are valid")
});

/// A pattern of this file with its counts filled in, for any case of letters and across lines.
fn expand(pattern: &str) -> String {
    let pattern = pattern
        .replace("<used>", &format!("(?P<used>{NUMBER})"))
        .replace("<limit>", &format!("(?P<limit>{NUMBER})"))
        .replace("<n>", &format!("(?:{NUMBER})"));
    format!("(?is){pattern}")
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are valid")
}

/// Judges an error by its messages.
pub(super) fn judge(messages: &[&str]) -> Verdict {
    static SETTING_AT_FAULT: LazyLock<Regex> = LazyLock::new(|| regex(&expand(SETTING)));
    for message in messages {
        for start in without_labels(message) {
            if let Some(found) = SETTING_AT_FAULT.captures(start) {
                let reserve = count(&found, "reserve");
                let counts = Counts::of(&found);
                // A smaller prompt helps only where the setting fits the window by itself.
                let helps = reserve.zip(counts.limit).is_some_and(|(reserve, limit)| reserve < limit);
                return if helps { Verdict::Overflow(counts) } else { Verdict::Other };
            }
        }
    }
    if messages.iter().any(|message| OTHERS.is_match(message)) {
        return Verdict::Other;
    }
    find(messages).map_or(Verdict::Other, Verdict::Overflow)
}

/// The counts that the messages of an overflow name.
pub(super) fn counts(messages: &[&str]) -> Counts {
    find(messages).unwrap_or_default()
}

/// The counts of the overflow wordings in the messages; `None` when there is no such wording.
fn find(messages: &[&str]) -> Option<Counts> {
    let mut found = None;
    for start in messages.iter().flat_map(|message| without_labels(message)) {
        for at in &WORDINGS.set.matches(start) {
            let counts = WORDINGS.each[at].captures(start).map(|captures| Counts::of(&captures)).unwrap_or_default();
            let earlier = found.get_or_insert(counts);
            if earlier.is_empty() {
                *earlier = counts;
            }
        }
    }
    found
}

/// A message, then what remains of it behind each of the labels that gateways put in front: a status, the name of an
/// exception, `Provider error:`.
pub(super) fn without_labels(message: &str) -> impl Iterator<Item = &str> {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        regex(concat!(
            r"(?i)\A\s*(?:<?[0-9]{3}>?(?:\s+-)?\s+|\[[^\]\n]{0,60}\]:?\s+|",
            r#"[^:"'`\n]{0,80}?(?:error|exception|exceeded|code|(?:bad|invalid).?request|(?:request|validation) failed)"#,
            r#"[^:"'`\n]{0,60}?(?::\s*|\s-\s+))"#,
        ))
    });
    /// The most labels that are taken off.
    const LABELS: usize = 6;
    iter::successors(Some(message), |message| Some(&message[LABEL.find(message)?.end()..])).take(LABELS)
}
