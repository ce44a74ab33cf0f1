//! Which failed answers and replies are context overflows, in both modes.

use runvil_core::failure::{FailureKind, ModelFailure, classify};
use runvil_core::overflow::{Classifier, OverflowMode, OverflowRule};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, Usage};

fn extended() -> Classifier {
    Classifier::new(OverflowMode::Extended, Vec::new())
}

fn is_overflow(failure: &ModelFailure) -> bool {
    failure.kind == FailureKind::ContextOverflow
}

fn body(message: &str) -> String {
    serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string()
}

/// Messages of an overflow, with the counts they name: those in use and those in the limit.
const WORDINGS: &[(&str, Option<u64>, Option<u64>)] = &[
    // OpenAI, Azure, DeepSeek, vLLM, OpenRouter
    ("This model's maximum context length is 4096 tokens.", None, Some(4096)),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, \
         1000 in the completion). Please reduce the length of the messages or completion.",
        Some(5000),
        Some(4096),
    ),
    (
        "This model's maximum context length is 8,192 tokens, however you requested 9,001 tokens.",
        Some(9001),
        Some(8192),
    ),
    (
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 4100 tokens.",
        Some(4100),
        Some(4096),
    ),
    (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
        Some(5000),
        Some(4096),
    ),
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 144000 tokens (143000 of \
         text input, 1000 in the output).",
        Some(144_000),
        Some(131_072),
    ),
    (
        "You passed 4097 input tokens and requested 16 output tokens. However, the model's context length is only 4096 \
         tokens, resulting in a maximum input length of 4080 tokens.",
        Some(4097),
        Some(4096),
    ),
    (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure it is shorter.",
        Some(5000),
        Some(4096),
    ),
    ("maximum context length is 4096 tokens. However, you requested 5000 tokens", Some(5000), Some(4096)),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
        Some(300_000),
        Some(272_000),
    ),
    // Anthropic
    ("prompt is too long: 210000 tokens > 200000 maximum", Some(210_000), Some(200_000)),
    ("Prompt is too long", None, None),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease one of them",
        Some(190_000),
        Some(200_000),
    ),
    // Gemini, Vertex AI
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        Some(1_200_000),
        Some(1_048_576),
    ),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", None, Some(1_048_576)),
    (
        "Unable to submit request because the input token count is 40000 but model only supports up to 32768. Reduce it.",
        Some(40_000),
        Some(32_768),
    ),
    // xAI
    (
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        Some(140_000),
        Some(131_072),
    ),
    // SGLang, Together
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", Some(5000), Some(4096)),
    ("Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens).", Some(5000), Some(4096)),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 \
         tokens: 4000 tokens from the input messages and 1000 tokens for the completion.",
        Some(5000),
        Some(4096),
    ),
    ("Input length 5000 exceeds the maximum allowed input length of 4096 tokens.", Some(5000), Some(4096)),
    ("The request exceeds the maximum allowed input length of 4096 tokens.", None, Some(4096)),
    // GitHub Copilot, Moonshot, Cerebras, Groq
    ("prompt token count of 70000 exceeds the limit of 64000", Some(70_000), Some(64_000)),
    ("Invalid request: Your request exceeded model token limit: 8192 (requested: 10000)", Some(10_000), Some(8192)),
    ("exceeded model token limit", None, None),
    (
        "Please reduce the length of the messages or completion. Current length is 8500 while limit is 8192",
        Some(8500),
        Some(8192),
    ),
    ("Current length is 8500 while limit is 8192", Some(8500), Some(8192)),
    ("Please reduce the length of the messages or completion.", None, None),
    // Mistral, Cohere
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        Some(40_000),
        Some(32_768),
    ),
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5002. Try a shorter prompt.",
        Some(5002),
        Some(4081),
    ),
    (
        "too many tokens: size limit exceeded by 100 tokens. Try using shorter or fewer inputs. The limit for this model \
         is 128000 tokens.",
        None,
        Some(128_000),
    ),
    // Bedrock
    ("Input is too long for requested model.", None, None),
    ("ValidationException: Input is too long for requested model.", None, None),
    (
        "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000",
        Some(9000),
        Some(8192),
    ),
    ("Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input.", None, None),
    // llama.cpp and its Python server
    ("the request exceeds the available context size. try increasing the context size", None, None),
    (
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        Some(5000),
        Some(4096),
    ),
    ("Context size has been exceeded.", None, None),
    ("Requested tokens (5000) exceed context window of 4096", Some(5000), Some(4096)),
    // Ollama, LM Studio
    ("the input length exceeds the context length", None, None),
    ("prompt too long; exceeded max context length by 100 tokens", None, None),
    (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context \
         length of only 4096 tokens, which is not enough.",
        Some(5000),
        Some(4096),
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: \
         4096).",
        Some(5000),
        Some(4096),
    ),
    // TGI
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 \
         `max_new_tokens`",
        Some(4000),
        Some(4096),
    ),
    ("4000 `inputs` tokens + `max_new_tokens` must be <= 4096", Some(4000), Some(4096)),
    ("Input validation error: `inputs` must have less than 1024 tokens. Given: 1500", Some(1500), Some(1024)),
    // TensorRT-LLM, DashScope, Zhipu, MiniMax, StepFun
    ("Prompt length (5000) exceeds maximum input length (4096).", Some(5000), Some(4096)),
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", None, Some(30_720)),
    ("Prompt exceeds max length", None, None),
    ("invalid params, context window exceeds limit", None, None),
    ("the total length of all messages is too long", None, None),
    // Labels of gateways
    (
        "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - This \
         model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
        Some(5000),
        Some(4096),
    ),
    (
        "An error occurred (ValidationException) when calling the InvokeModel operation: Input is too long for requested \
         model.",
        None,
        None,
    ),
    (
        "litellm.BadRequestError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\
         \"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}",
        Some(210_000),
        Some(200_000),
    ),
    // Separators of thousands
    ("prompt is too long: 1,210,000 tokens > 1.000.000 maximum", Some(1_210_000), Some(1_000_000)),
    ("prompt is too long: 1'210'000 tokens > 1\u{202f}000\u{202f}000 maximum", Some(1_210_000), Some(1_000_000)),
    // A wording of no known server
    ("The number of tokens in your prompt is larger than the context window of the model", None, None),
];

#[test]
fn every_wording_is_an_overflow_with_its_counts() {
    for (message, used, limit) in WORDINGS {
        for status in [Some(400), Some(413), Some(422), Some(500), None] {
            let failure = extended().classify(status, &body(message));
            let found = (failure.kind, failure.status, failure.used, failure.limit);
            assert_eq!(found, (FailureKind::ContextOverflow, status, *used, *limit), "{status:?} {message}");
        }
        // The strict rules are wider in no case, and add the counts where they agree.
        let failure = classify(Some(400), &body(message));
        let expected = if is_overflow(&failure) { (*used, *limit) } else { (None, None) };
        assert_eq!((failure.used, failure.limit), expected, "{message}");
        for status in [401, 403, 404, 408, 429, 503, 504, 529] {
            assert!(!is_overflow(&extended().classify(Some(status), &body(message))), "{status} {message}");
        }
    }
}

/// Messages that only look like an overflow.
const OTHERS: &[&str] = &[
    // Throttling
    "Request too large for model `m` in organization `o` on tokens per minute (TPM): Limit 6000, Requested 7000",
    "Too many tokens, please wait before trying again.",
    "Too many tokens per day, please wait before trying again.",
    "ThrottlingException: Too many tokens",
    "You exceeded the rate limit: the prompt is too long for your tier",
    // Over-long ids and texts
    "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, got one of 45.",
    "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760.",
    "tool_call_id: input is too long, at most 64 characters",
    // A max_tokens setting
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
    "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for the model",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for `max_completion_tokens` is less \
     than the `context_window` for this model (context window 131072)",
    "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and \
     your request has 100 input tokens (5000 > 4096 - 100).",
    "The maximum tokens you requested exceeds the model limit of 8192. Use a lower number. (context length)",
    // The user's own words
    "Invalid value: 'the prompt is too long: 5 tokens > 3 maximum'. Expected a role.",
    "Unknown role \"prompt is too long\" in messages[0]",
    "Could not moderate the text `maximum context length is 4096 tokens`",
    // Nothing of the kind
    "Unknown field: context_window",
    "The context length parameter is not supported",
    "invalid request",
    "",
];

#[test]
fn what_only_looks_like_an_overflow_is_none() {
    for message in OTHERS {
        for status in [Some(400), Some(413), Some(422), Some(500), None] {
            let failure = extended().classify(status, &body(message));
            assert!(!is_overflow(&failure), "{status:?} {message}");
            assert_eq!((failure.used, failure.limit), (None, None), "{message}");
        }
    }
}

#[test]
fn a_setting_that_the_prompt_leaves_no_room_for_is_an_overflow() {
    let message = "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is \
                   4096 tokens and your request has 3000 input tokens (2000 > 4096 - 3000).";
    let failure = extended().classify(Some(400), &body(message));
    assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, Some(3000), Some(4096)));
}

#[test]
fn codes_decide_before_any_wording() {
    for (status, body, expected) in [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"no"}}"#, true),
        (400, r#"{"error":{"type":"exceed_context_size_error","code":400,"message":"no"}}"#, true),
        (413, r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the size"}}"#, true),
        (400, r#"{"code":"context_length_exceeded","message":"no"}"#, true),
        (400, r#"{"type":"request_too_large"}"#, true),
        (422, r#"{"detail":{"code":"context_length_exceeded"}}"#, true),
        (404, r#"{"error":{"code":"CONTEXT_LENGTH_EXCEEDED"}}"#, true),
        (500, r#"[{"error":{"code":"context_length_exceeded"}}]"#, true),
        (
            502,
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"code\":\"context_length_exceeded\"}}"}}}"#,
            true,
        ),
        (401, r#"{"error":{"code":"context_length_exceeded"}}"#, false),
        (413, r#"{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"prompt is too long"}}"#, false),
        (400, r#"{"error":{"code":"string_above_max_length","message":"prompt is too long"}}"#, false),
        (400, r#"{"type":"rate_limit_exceeded","message":"maximum context length is 4096 tokens"}"#, false),
        // Not where a code stands.
        (400, r#"{"error":{"message":"no","param":"context_length_exceeded"}}"#, false),
        (400, r#"{"error":{"message":"no"},"input":{"code":"context_length_exceeded"}}"#, false),
    ] {
        assert_eq!(is_overflow(&extended().classify(Some(status), body)), expected, "{body}");
    }
}

#[test]
fn counts_may_stand_in_fields_of_their_own() {
    let body = r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":
        "exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#;
    for failure in [extended().classify(Some(400), body), classify(Some(400), body)] {
        assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, Some(5000), Some(4096)));
    }
}

#[test]
fn the_message_is_found_wherever_providers_put_it() {
    let message = "prompt is too long: 5 tokens > 3 maximum";
    for body in [
        format!(r#"{{"message":"{message}"}}"#),
        format!(r#"{{"error":"{message}"}}"#),
        format!(r#"{{"error":{{"message":"{message}"}}}}"#),
        format!(r#"{{"detail":"{message}"}}"#),
        format!(r#"{{"detail":{{"message":"{message}"}}}}"#),
        format!(r#"{{"object":"error","message":{{"detail":"{message}"}}}}"#),
        format!(r#"{{"type":"response.failed","response":{{"error":{{"message":"{message}"}}}}}}"#),
        format!(r#"[{{"error":{{"message":"{message}"}}}}]"#),
        format!(r#"{{"error":{{"message":"upstream","metadata":{{"raw":"{message}"}}}}}}"#),
    ] {
        let failure = extended().classify(Some(422), &body);
        assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, Some(5), Some(3)));
        assert_eq!(failure.detail.as_deref(), Some(body.as_str()));
    }
}

#[test]
fn a_body_that_repeats_the_request_is_none_in_extended_mode() {
    for body in [
        r#"{"error":{"message":"invalid role"},"input":"prompt is too long: 5 tokens > 3 maximum"}"#,
        r#"{"message":"invalid role","messages":[{"content":"maximum context length is 5 tokens"}]}"#,
    ] {
        assert!(is_overflow(&classify(Some(400), body)), "{body}");
        let failure = extended().classify(Some(400), body);
        assert_eq!((failure.kind, failure.used), (FailureKind::Rejected, None), "{body}");
    }
}

#[test]
fn without_a_message_the_strict_rules_decide() {
    for body in [
        "sorry, too many tokens",
        "<p>context window</p>",
        r#"{"errors":["prompt is too long"]}"#,
        "[1]",
        "\"x\"",
        "",
        "{",
    ] {
        for status in [Some(400), Some(413), Some(422), Some(500), None] {
            let strict = classify(status, body);
            assert_eq!(extended().classify(status, body), strict, "{status:?} {body}");
        }
    }
    let failure = extended().classify(Some(400), "prompt is too long: 5 tokens > 3 maximum");
    assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, Some(5), Some(3)));
}

#[test]
fn other_kinds_stay_what_their_status_says() {
    for (status, body, kind) in [
        (Some(429), r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#, FailureKind::RateLimited),
        (Some(429), r#"{"error":{"code":"insufficient_quota","message":"no"}}"#, FailureKind::QuotaExhausted),
        (None, r#"{"error":{"code":"rate_limit_exceeded","message":"context window"}}"#, FailureKind::RateLimited),
        (Some(400), r#"{"error":{"code":"content_filter","message":"no"}}"#, FailureKind::Refused),
        (Some(400), r#"{"error":{"message":"no"}}"#, FailureKind::Rejected),
        (Some(500), r#"{"error":{"message":"no"}}"#, FailureKind::ServerError),
        (None, r#"{"error":{"message":"Overloaded"}}"#, FailureKind::Overloaded),
    ] {
        assert_eq!(extended().classify(status, body).kind, kind, "{body}");
    }
}

#[test]
fn a_number_that_no_counter_holds_is_left_out() {
    let message = "prompt is too long: 99999999999999999999999999 tokens > 3 maximum";
    let failure = extended().classify(Some(400), &body(message));
    assert_eq!((failure.kind, failure.used, failure.limit), (FailureKind::ContextOverflow, None, Some(3)));
}

#[test]
fn rules_of_the_host_come_first() {
    let rule = |pattern, status, overflow| OverflowRule::new(pattern, status, overflow).unwrap();
    let rules = vec![
        rule(r"full: (?P<used>[\d,]+) of (?P<limit>[\d,]+)", None, true),
        rule("no room", Some(507), true),
        rule("(?i)^prompt is too long", None, false),
        rule("odd (?P<used>.*)", None, true),
    ];
    for mode in OverflowMode::ALL {
        let classifier = Classifier::new(mode, rules.clone());
        for (status, text, expected) in [
            (Some(429), body("cup is full: 5,000 of 4,096"), Some((Some(5000), Some(4096)))),
            (None, body("cup is full: 5000 of 4096"), Some((Some(5000), Some(4096)))),
            (Some(418), String::from("plain text, full: 7 of 6"), Some((Some(7), Some(6)))),
            (Some(507), body("no room"), Some((None, None))),
            (Some(500), body("no room"), None),
            (None, body("no room"), None),
            (Some(400), body("Prompt is too long: 5 tokens > 3 maximum"), None),
            (Some(400), body("odd one out"), Some((None, None))),
            // Only the message is searched.
            (Some(400), String::from(r#"{"message":"no","input":"full: 5 of 4"}"#), None),
        ] {
            let failure = classifier.classify(status, &text);
            let found = is_overflow(&failure).then_some((failure.used, failure.limit));
            assert_eq!(found, expected, "{mode:?} {status:?} {text}");
        }
    }
}

#[test]
fn a_bad_pattern_is_refused_and_named() {
    let error = OverflowRule::new("(unclosed", None, true).unwrap_err().to_string();
    assert!(error.starts_with("an overflow rule's pattern must be a regular expression: "), "{error}");
    assert!(error.contains("(unclosed") && error.contains("unclosed group"), "{error}");
}

#[test]
fn token_counts_of_a_reply_tell_an_overflow() {
    let usage =
        |prompt, completion| Some(Usage { prompt_tokens: prompt, completion_tokens: completion, ..Usage::default() });
    let cut = |usage| Reply { finish_reason: Some("length".into()), usage, ..Reply::default() };
    let said = |text: &str, usage| Reply { text: Some(text.into()), ..cut(usage) };
    let call = ReplyCall { id: "1".into(), name: "f".into(), arguments: CallArguments::Absent };
    let window = Some(4096);
    let over = Some((Some(5000), window));
    for (reply, window, expected) in [
        (said("text", usage(Some(5000), Some(9))), window, over),
        (said("text", usage(Some(4096), Some(9))), window, None),
        (said("text", usage(Some(5000), Some(9))), None, None),
        (said("text", None), window, None),
        (cut(usage(Some(4096), None)), window, Some((Some(4096), window))),
        (cut(usage(Some(4095), None)), window, None),
        (cut(usage(Some(4095), Some(3))), window, None),
        (cut(usage(Some(4095), Some(0))), window, Some((Some(4095), window))),
        (cut(usage(None, Some(0))), None, Some((None, None))),
        (cut(None), window, None),
        (said(" \n", usage(None, Some(0))), window, Some((None, window))),
        (Reply { finish_reason: Some("stop".into()), ..cut(usage(Some(9), Some(0))) }, window, None),
        (Reply { finish_reason: None, ..cut(usage(Some(9), Some(0))) }, window, None),
        (Reply { tool_calls: vec![call], ..cut(usage(Some(9), Some(0))) }, window, None),
        (Reply { reasoning: Some("hm".into()), ..cut(usage(Some(9), Some(0))) }, window, None),
    ] {
        let failure = extended().judge_reply(&reply, window);
        assert_eq!(failure.as_ref().map(|failure| (failure.used, failure.limit)), expected, "{reply:?}");
        assert!(failure.is_none_or(|failure| is_overflow(&failure) && failure.status.is_none()));
        assert_eq!(Classifier::default().judge_reply(&reply, window), None);
    }
}
