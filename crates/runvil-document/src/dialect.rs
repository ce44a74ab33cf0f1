//! The dialects of a prompt document and everything in which their files differ.

/// The language a document is written in, told by its version key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Version key `runvil`.
    Runvil,
    /// Version key `promptforge`.
    PromptForge,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 2] = [Self::Runvil, Self::PromptForge];

    /// The frontmatter key that selects the dialect and holds its major version.
    pub fn version_key(self) -> &'static str {
        self.rules().version_key
    }

    fn rules(self) -> &'static Rules {
        match self {
            Self::Runvil => &RUNVIL,
            Self::PromptForge => &PROMPT_FORGE,
        }
    }
}

/// The file rules of a dialect. A document without a version key is read as the current one.
pub(crate) fn rules(dialect: Option<Dialect>) -> &'static Rules {
    dialect.unwrap_or(Dialect::Runvil).rules()
}

/// What one dialect's files may hold.
pub(crate) struct Rules {
    pub(crate) version_key: &'static str,
    /// The accepted top-level frontmatter keys, in the order messages list them.
    pub(crate) keys: &'static [&'static str],
    /// The key of the list of tool sets, and the form of its entries.
    pub(crate) uses: UsesRules,
    /// Why a `lua shared` fence is refused; `None` where it defines the shared library.
    pub(crate) shared_fence_refusal: Option<&'static str>,
}

/// The list of tool sets a document asks for.
pub(crate) struct UsesRules {
    /// The frontmatter key of the list.
    pub(crate) key: &'static str,
    /// The keys of an entry that is a map: the name, `optional`, `config`.
    pub(crate) entry_keys: [&'static str; 3],
    /// What an entry names, in messages.
    pub(crate) noun: &'static str,
    /// The number of segments of a name.
    pub(crate) segments: usize,
    /// What is expected of a name with another, otherwise possible number of segments.
    pub(crate) exact_count: &'static str,
    /// What is expected of a name whose number of segments fits neither a set nor a tool.
    pub(crate) gross_count: &'static str,
    /// What an entry may be, in messages.
    pub(crate) entry_form: &'static str,
}

const RUNVIL: Rules = Rules {
    version_key: "runvil",
    keys: &["name", "description", "runvil", "max_tool_iterations", "uses", "models", "args"],
    uses: UsesRules {
        key: "uses",
        entry_keys: ["pack", "optional", "config"],
        noun: "pack name",
        segments: 1,
        exact_count: "a pack name has exactly 1 segment (pack)",
        gross_count: "must have exactly 1 segment (pack) or 2 (pack/tool)",
        entry_form: "a pack name string or a map with `pack`, `optional`, and `config`",
    },
    shared_fence_refusal: Some(
        "`lua shared` fence is not part of a runvil prompt: move the code to a file beside the prompt and load it with `require`",
    ),
};

const PROMPT_FORGE: Rules = Rules {
    version_key: "promptforge",
    keys: &[
        "name",
        "description",
        "promptforge",
        "max_tool_iterations",
        "input",
        "output",
        "capabilities",
        "tools",
        "args",
        "models",
    ],
    uses: UsesRules {
        key: "capabilities",
        entry_keys: ["ref", "optional", "config"],
        noun: "capability id",
        segments: 2,
        exact_count: "a capability id has exactly 2 segments (namespace/pack)",
        gross_count: "must have exactly 2 segments (namespace/pack) or 3 (namespace/pack/name)",
        entry_form: "a capability id string or a map with `ref`, `optional`, and `config`",
    },
    shared_fence_refusal: None,
};
