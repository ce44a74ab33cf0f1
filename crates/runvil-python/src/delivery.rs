//! How a model call that runs on the tokio runtime reaches Python's event loop.
//!
//! Everything that touches Python objects of the caller runs on the loop's thread. The calls of one loop put what they
//! have into one mailbox, which the loop is asked to empty. So the fragments of a call arrive in order, the last one
//! before its result; and however many calls there are, and however busy the loop is, one of tokio's threads at most
//! waits for the interpreter.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use runvil_client::Retry;
use runvil_core::failure::ModelFailure;
use runvil_core::reply::Reply;
use tokio::sync::Notify;

use crate::client::{model_error, reply_dict};
use crate::exit::{attached, close_at_exit};

/// A call that is running, as the loop sees it.
pub(crate) struct Call {
    mailbox: Arc<Mailbox>,
    /// The context variables of the caller, for its callbacks.
    context: Py<PyAny>,
    /// What the caller waits for.
    future: Py<PyAny>,
    on_fragment: Option<Py<PyAny>>,
    on_retry: Option<Py<PyAny>>,
    /// Told when nobody waits any more.
    cancelled: Notify,
}

/// What a call has for its caller.
pub(crate) enum Item {
    Fragment(String),
    Retry(Retry),
    Outcome(Box<Result<Reply, ModelFailure>>),
    /// The task ended without an outcome.
    Lost,
}

impl Call {
    /// A call whose outcome a new future of the loop will hold.
    pub(crate) fn new(
        event_loop: &Bound<'_, PyAny>,
        on_fragment: Option<Py<PyAny>>,
        on_retry: Option<Py<PyAny>>,
    ) -> PyResult<Arc<Self>> {
        let py = event_loop.py();
        close_at_exit(py)?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let call = Arc::new(Self {
            mailbox: Mailbox::of(event_loop),
            context: py.import(intern!(py, "contextvars"))?.call_method0(intern!(py, "copy_context"))?.unbind(),
            future: future.clone().unbind(),
            on_fragment,
            on_retry,
            cancelled: Notify::new(),
        });
        future.call_method1(intern!(py, "add_done_callback"), (Cancel(call.clone()),))?;
        Ok(call)
    }

    /// What the caller waits for.
    pub(crate) fn future<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.future.bind(py).clone()
    }

    /// Waits until nobody waits for the call any more.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// Hands a piece of text over, if the caller wants to see it.
    pub(crate) fn send_fragment(self: &Arc<Self>, text: &str) {
        if self.on_fragment.is_some() {
            self.send(Item::Fragment(text.to_owned()));
        }
    }

    /// Hands a report of another try over, if the caller wants to see it.
    pub(crate) fn send_retry(self: &Arc<Self>, retry: &Retry) {
        if self.on_retry.is_some() {
            self.send(Item::Retry(retry.clone()));
        }
    }

    pub(crate) fn send(self: &Arc<Self>, item: Item) {
        self.mailbox.put(self.clone(), item);
    }

    /// Hands one item to the caller. Runs on the loop's thread.
    fn deliver(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        let future = self.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        let Err(error) = self.pass_on(py, item) else { return Ok(()) };
        let set_exception = intern!(py, "set_exception");
        if let Err(refused) = future.call_method1(set_exception, (error,)) {
            // A future takes no StopIteration.
            future.call_method1(set_exception, (refused,))?;
        }
        Ok(())
    }

    /// Calls the callback or sets the result. An error is what the caller shall see raised.
    fn pass_on(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        let run = |callback: &Py<PyAny>| (intern!(py, "run"), callback.clone_ref(py));
        match item {
            Item::Fragment(text) => {
                if let Some((run, callback)) = self.on_fragment.as_ref().map(run) {
                    self.context.call_method1(py, run, (callback, text))?;
                }
            }
            Item::Retry(Retry { number, delay, failure }) => {
                if let Some((run, callback)) = self.on_retry.as_ref().map(run) {
                    let arguments = (callback, number, delay.as_secs_f64(), failure.kind.name(), failure.status);
                    self.context.call_method1(py, run, arguments)?;
                }
            }
            Item::Outcome(outcome) => {
                let reply = outcome.map_err(|failure| model_error(py, failure).unwrap_or_else(|error| error))?;
                self.future.call_method1(py, intern!(py, "set_result"), (reply_dict(py, reply)?,))?;
            }
            Item::Lost => return Err(PyRuntimeError::new_err("the model call ended without a result")),
        }
        Ok(())
    }
}

/// Sends the outcome of a task when it ends, even by a panic.
pub(crate) struct Ending<'a> {
    pub(crate) call: &'a Arc<Call>,
    pub(crate) outcome: Option<Result<Reply, ModelFailure>>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.call.send(self.outcome.take().map_or(Item::Lost, |outcome| Item::Outcome(Box::new(outcome))));
    }
}

/// What waits for one event loop.
struct Mailbox {
    event_loop: Py<PyAny>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<(Arc<Call>, Item)>,
    /// Whether the loop has been asked to empty the queue.
    asked: bool,
}

/// The mailboxes of the loops that have calls under way, by the address of the loop, which its mailbox keeps alive.
static MAILBOXES: LazyLock<Mutex<HashMap<usize, Weak<Mailbox>>>> = LazyLock::new(Mutex::default);

impl Mailbox {
    /// The mailbox of a loop.
    fn of(event_loop: &Bound<'_, PyAny>) -> Arc<Self> {
        let address = event_loop.as_ptr() as usize;
        let mut mailboxes = MAILBOXES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = mailboxes.get(&address).and_then(Weak::upgrade) {
            return mailbox;
        }
        mailboxes.retain(|_, mailbox| mailbox.strong_count() > 0);
        let mailbox = Arc::new(Self { event_loop: event_loop.clone().unbind(), queue: Mutex::default() });
        mailboxes.insert(address, Arc::downgrade(&mailbox));
        mailbox
    }

    /// Queues an item and wakes the loop unless that was done already.
    fn put(self: &Arc<Self>, call: Arc<Call>, item: Item) {
        {
            let mut queue = self.queue();
            queue.items.push_back((call, item));
            if std::mem::replace(&mut queue.asked, true) {
                return;
            }
        }
        let asked = attached(|py| {
            let callback = (Deliver(self.clone()),);
            self.event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), callback).map(drop)
        });
        if !matches!(asked, Some(Ok(()))) {
            self.give_up();
        }
    }

    /// The loop is closed, or the interpreter is: nobody can wait for these calls.
    fn give_up(&self) {
        let items = {
            let mut queue = self.queue();
            queue.asked = false;
            std::mem::take(&mut queue.items)
        };
        for (call, _) in &items {
            call.cancelled.notify_one();
        }
    }

    /// The queue. It is never locked while the interpreter is waited for.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Empties a mailbox; the loop calls it.
#[pyclass(frozen)]
struct Deliver(Arc<Mailbox>);

#[pymethods]
impl Deliver {
    /// Delivers what is there. What arrives meanwhile waits for the loop's next turn, so that others get theirs.
    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mailbox = &slf.get().0;
        let items = std::mem::take(&mut mailbox.queue().items);
        let mut result = Ok(());
        for (call, item) in items {
            result = result.and(call.deliver(py, item));
        }
        let again = {
            let mut queue = mailbox.queue();
            queue.asked = !queue.items.is_empty();
            queue.asked
        };
        if again {
            let callback = (slf.clone(),);
            let asked = mailbox.event_loop.call_method1(py, intern!(py, "call_soon"), callback);
            if asked.is_err() {
                mailbox.give_up();
            }
        }
        result
    }
}

/// Ends the task of a call whose future is done; the loop calls it.
#[pyclass(frozen)]
struct Cancel(Arc<Call>);

#[pymethods]
impl Cancel {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.cancelled.notify_one();
    }
}
