//! What a run costs besides its model: parsing, building a section VM, stepping, a whole round.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use runvil_core::reply::Reply;
use runvil_engine::effect::{Answer, EffectId};
use runvil_engine::params::Params;
use runvil_engine::prompt::Prompt;
use runvil_engine::run::{Run, Step};
use runvil_lua::models::{CatalogModel, Thinking};

/// The allocator of the Python extension.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ONE_ROUND: &str = "---
name: bench
description: One section, one round.
runvil: 0
models:
  writer: {}
---

# Bench

## Chat

Say hello.

```lua
models.use('writer')
messages:user(prose)
models.loop()
return messages[#messages].content
```
";

const EMPTY: &str = "---
name: bench
description: One section that returns at once.
runvil: 0
---

# Bench

## Only

```lua
return 'x'
```
";

const MANY_ROUNDS: &str = "---
name: bench
description: One section, rounds without end.
runvil: 0
models:
  writer: {}
---

# Bench

## Chat

```lua
models.use('writer')
while true do models.infer('again') end
```
";

fn prompt(source: &str) -> Arc<Prompt> {
    Arc::new(Prompt::parse(source.as_bytes()).expect("the prompt parses"))
}

fn params() -> Params {
    let model = CatalogModel {
        estimator: runvil_core::estimator::Estimator::default(),
        name: "small".to_owned(),
        id: "small".to_owned(),
        context: 8192,
        max_tokens: None,
        thinking: Thinking::Never,
        description: String::new(),
    };
    Params { models: [("writer".to_owned(), model)].into(), ..Params::default() }
}

fn reply() -> Answer {
    Answer::Reply(Box::new(Reply { text: Some("pong".to_owned()), ..Reply::default() }))
}

/// Steps until the next effect.
fn next_effect(run: &mut Run) -> EffectId {
    match run.step() {
        Step::Pending { effects, .. } => effects[0].0,
        Step::Done { outcome, .. } => panic!("{outcome:?}"),
    }
}

fn benches(criterion: &mut Criterion) {
    criterion.bench_function("parse a prompt of one section", |bencher| {
        bencher.iter(|| Prompt::parse(black_box(ONE_ROUND.as_bytes())));
    });
    let empty = prompt(EMPTY);
    criterion.bench_function("a run of one block that returns (one section VM)", |bencher| {
        bencher.iter(|| Run::new(Arc::clone(&empty), params()).step());
    });
    let one_round = prompt(ONE_ROUND);
    criterion.bench_function("a run of one round", |bencher| {
        bencher.iter(|| {
            let mut run = Run::new(Arc::clone(&one_round), params());
            let effect = next_effect(&mut run);
            run.resume(effect, reply());
            run.step()
        });
    });
    let many_rounds = prompt(MANY_ROUNDS);
    criterion.bench_function("resume and step to the next effect", |bencher| {
        bencher.iter_batched_ref(
            || {
                let mut run = Run::new(Arc::clone(&many_rounds), params());
                let effect = next_effect(&mut run);
                (run, effect)
            },
            |(run, effect)| {
                run.resume(*effect, reply());
                *effect = next_effect(run);
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(run, benches);
criterion_main!(run);
