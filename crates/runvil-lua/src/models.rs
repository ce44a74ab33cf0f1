//! Model roles and handles: what a round can run on.

use std::sync::{Arc, Mutex};

use runvil_core::estimator::Estimator;

use crate::section::lock;

/// Whether a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// It never does.
    #[default]
    Never,
    /// It always does.
    Always,
    /// A round can turn it on or off.
    Switchable,
}

impl Thinking {
    /// The mode as requirement notices print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::Always => "Always",
            Self::Switchable => "Switchable",
        }
    }
}

/// A model of the Host's catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogModel {
    /// The catalog's name for it; what an effect names.
    pub name: String,
    /// The provider's name for it.
    pub id: String,
    /// The context window, in tokens.
    pub context: u64,
    /// The most tokens a reply may have, when the catalog sets it.
    pub max_tokens: Option<u64>,
    /// Whether it thinks.
    pub thinking: Thinking,
    /// What the catalog says of it.
    pub description: String,
    /// How its requests are counted.
    pub estimator: Estimator,
}

/// A role of the prompt bound to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// The role's label.
    pub label: String,
    /// Its keywords, in the prompt's order.
    pub keywords: Vec<String>,
    /// The prompt's description of it.
    pub description: Option<String>,
    /// The model it is bound to.
    pub model: CatalogModel,
}

impl Role {
    /// What the role's keywords say of thinking; the last one wins.
    fn thinking(&self) -> Option<bool> {
        self.keywords.iter().rev().find_map(|keyword| match keyword.as_str() {
            "thinking" => Some(true),
            "no-thinking" => Some(false),
            _ => None,
        })
    }
}

/// The context window of a raw model id, in tokens.
pub const RAW_MODEL_CONTEXT: u64 = 8192;

/// The roles of a run and its prompt-wide default.
#[derive(Debug)]
pub struct Models {
    roles: Vec<Role>,
    raw_ids: bool,
    default: Mutex<Option<Arc<ModelHandle>>>,
}

/// Options of `models.use`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// The most tokens of a reply.
    pub max_tokens: Option<u64>,
    /// Whether a switchable model thinks.
    pub thinking: Option<bool>,
}

/// A frozen choice of a model and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelHandle {
    /// The role's label, or the raw model id.
    pub label: String,
    /// The role, unless the handle is of a raw model id.
    pub role: Option<String>,
    /// The role's description, else the catalog's.
    pub description: String,
    /// The role's keywords.
    pub capabilities: Vec<String>,
    /// The catalog's name of the model, or the raw id.
    pub model: String,
    /// The provider's name of the model.
    pub model_id: String,
    /// The context window, in tokens.
    pub context: u64,
    /// Whether to think; `None` leaves it to the model.
    pub thinking: Option<bool>,
    /// Whether the model's thinking can be switched at all.
    pub switchable: bool,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of a reply.
    pub max_tokens: Option<u64>,
    /// How requests are counted.
    pub estimator: Estimator,
}

impl Models {
    /// The bound roles of a run; `raw_ids` says whether raw model ids may be used.
    pub fn new(roles: Vec<Role>, raw_ids: bool) -> Self {
        Self { roles, raw_ids, default: Mutex::default() }
    }

    /// The handle of a bound role.
    pub(crate) fn role(&self, label: &str, options: Options) -> Option<ModelHandle> {
        let role = self.roles.iter().find(|role| role.label == label)?;
        let model = &role.model;
        Some(ModelHandle {
            label: role.label.clone(),
            role: Some(role.label.clone()),
            description: role.description.clone().unwrap_or_else(|| model.description.clone()),
            capabilities: role.keywords.clone(),
            model: model.name.clone(),
            model_id: model.id.clone(),
            context: model.context,
            thinking: options.thinking.or_else(|| role.thinking()),
            switchable: model.thinking == Thinking::Switchable,
            temperature: options.temperature,
            max_tokens: options.max_tokens.or(model.max_tokens),
            estimator: model.estimator.clone(),
        })
    }

    /// The handle of a raw model id; `None` when the Host forbids raw ids. Fails with what is wrong with the id.
    pub(crate) fn raw(&self, id: &str) -> Result<Option<ModelHandle>, &'static str> {
        if !self.raw_ids {
            return Ok(None);
        }
        if id.is_empty() {
            return Err("it is empty");
        }
        if id.chars().any(char::is_control) {
            return Err("it holds a control character");
        }
        Ok(Some(ModelHandle {
            label: id.to_owned(),
            role: None,
            description: id.to_owned(),
            capabilities: Vec::new(),
            model: id.to_owned(),
            model_id: id.to_owned(),
            context: RAW_MODEL_CONTEXT,
            thinking: None,
            switchable: false,
            temperature: None,
            max_tokens: None,
            estimator: Estimator::Specified,
        }))
    }

    /// The prompt-wide default, once one was set.
    pub fn default_handle(&self) -> Option<Arc<ModelHandle>> {
        lock(&self.default).clone()
    }

    /// Sets the prompt-wide default; gives back the label of an earlier, different one instead of changing it.
    pub(crate) fn set_default(&self, handle: &Arc<ModelHandle>) -> Result<(), String> {
        let mut default = lock(&self.default);
        match &*default {
            Some(existing) if existing.label != handle.label => Err(existing.label.clone()),
            Some(_) => Ok(()),
            None => {
                *default = Some(Arc::clone(handle));
                Ok(())
            }
        }
    }
}
