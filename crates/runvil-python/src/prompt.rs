//! `Prompt`: a parsed document with its Lua compiled.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use runvil_document::Yaml;
use runvil_engine::prompt as engine;

/// One thing wrong with a prompt document, or worth a warning.
#[pyclass(frozen, get_all, module = "runvil._native")]
pub(crate) struct Problem {
    kind: String,
    message: String,
    /// 1-based.
    line: Option<usize>,
    /// 1-based, in bytes.
    column: Option<usize>,
}

#[pymethods]
impl Problem {
    fn __repr__(&self) -> String {
        let place = self.line.map_or_else(String::new, |line| format!(", line {line}"));
        format!("Problem({}{place}: {})", self.kind, self.message)
    }
}

/// A model role that a prompt declares.
#[pyclass(frozen, get_all, module = "runvil._native")]
pub(crate) struct Role {
    label: String,
    keywords: Vec<String>,
    /// Tokens.
    min_context: Option<u32>,
    description: Option<String>,
}

/// A parsed prompt document. It can be run any number of times, from any thread.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Prompt {
    pub(crate) inner: Arc<engine::Prompt>,
}

#[pymethods]
impl Prompt {
    /// Parses a document and compiles its Lua: the prompt, or all problems in the specified order.
    #[staticmethod]
    fn parse(py: Python<'_>, source: &[u8]) -> (Option<Self>, Vec<Problem>) {
        match py.detach(|| engine::Prompt::parse(source)) {
            Ok(prompt) => (Some(Self { inner: Arc::new(prompt) }), Vec::new()),
            Err(problems) => {
                let problems = problems
                    .into_iter()
                    .map(|problem| Problem {
                        kind: problem.kind.as_str().to_owned(),
                        message: problem.message,
                        line: problem.line,
                        column: problem.column,
                    })
                    .collect();
                (None, problems)
            }
        }
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.document().frontmatter.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.inner.document().frontmatter.description
    }

    #[getter]
    fn version(&self) -> Option<u64> {
        self.inner.document().version
    }

    /// The frontmatter key that picked the dialect.
    #[getter]
    fn dialect(&self) -> Option<&'static str> {
        self.inner.document().dialect.map(runvil_document::Dialect::version_key)
    }

    #[getter]
    fn source(&self) -> &str {
        &self.inner.document().source
    }

    #[getter]
    fn warnings(&self) -> Vec<Problem> {
        self.inner
            .warnings()
            .iter()
            .map(|warning| Problem {
                kind: "Warning".to_owned(),
                message: warning.message.clone(),
                line: Some(warning.line),
                column: Some(warning.column),
            })
            .collect()
    }

    #[getter]
    fn max_tool_iterations(&self) -> Option<u32> {
        self.inner.document().frontmatter.max_tool_iterations
    }

    #[getter]
    fn roles(&self) -> Vec<Role> {
        self.inner
            .document()
            .frontmatter
            .models
            .iter()
            .map(|role| Role {
                label: role.label.clone(),
                keywords: role.keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect(),
                min_context: role.min_context,
                description: role.description.clone(),
            })
            .collect()
    }

    /// The declared packs: name, whether optional, and the config as Python values.
    #[getter]
    fn uses<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, bool, Bound<'py, PyAny>)>> {
        self.inner
            .document()
            .frontmatter
            .uses
            .iter()
            .map(|pack| {
                let config = match &pack.config {
                    Some(config) => yaml_to_python(py, config)?,
                    None => py.None().into_bound(py),
                };
                Ok((pack.pack.clone(), pack.optional, config))
            })
            .collect()
    }
}

fn yaml_to_python<'py>(py: Python<'py>, value: &Yaml) -> PyResult<Bound<'py, PyAny>> {
    use pyo3::IntoPyObjectExt;
    match value {
        Yaml::Null => Ok(py.None().into_bound(py)),
        Yaml::Boolean(flag) => flag.into_bound_py_any(py),
        Yaml::Integer(integer) => integer.into_bound_py_any(py),
        Yaml::Float(float) => float.into_bound_py_any(py),
        Yaml::String(text) => text.into_bound_py_any(py),
        Yaml::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(yaml_to_python(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Yaml::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, item) in entries {
                dict.set_item(key, yaml_to_python(py, item)?)?;
            }
            Ok(dict.into_any())
        }
    }
}
