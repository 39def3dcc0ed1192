//! The shim around the small client, on threads of this process.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use ticketing_conformance::client::Shim;

use crate::client::{Ask, Client, Done, Input, Outcome};
use crate::faults::Fault;

/// Starts a client that is broken so.
pub(crate) fn launch(fault: Fault) -> io::Result<Shim> {
    Shim::on_thread(move |commands, answers| {
        let (inbox, inputs) = mpsc::channel();
        let sender = inbox.clone();
        thread::spawn(move || {
            for line in commands.lines().map_while(Result::ok) {
                // Who has gone does not want to know.
                _ = sender.send(Input::Command(line));
            }
            _ = sender.send(Input::NoMoreCommands);
        });
        let answers = Arc::new(Mutex::new(answers));
        let mut work =
            Work { fault, inbox, answers, client: None, owners: HashMap::new(), tickets: Arc::default() };
        let Ok(Input::Command(open)) = inputs.recv() else { return };
        work.execute(&open);
        loop {
            let Some(client) = &mut work.client else { return };
            let Some(commands) = client.turn(&inputs) else { return };
            commands.iter().for_each(|line| work.execute(line));
            if let Some(client) = &mut work.client {
                client.settle();
            }
        }
    })
}

type Tickets = Arc<Mutex<HashMap<u64, (String, u64)>>>;

struct Work {
    fault: Fault,
    inbox: Sender<Input>,
    answers: Arc<Mutex<io::PipeWriter>>,
    client: Option<Client>,
    owners: HashMap<u64, u64>,
    tickets: Tickets,
}

impl Work {
    fn execute(&mut self, line: &str) {
        let command: Value = serde_json::from_str(line).expect("the suite writes JSON");
        let number = |name: &str| command.get(name).and_then(Value::as_u64);
        let text = |name: &str| command.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = number("id").expect("each command has an id");
        let of = number("of").unwrap_or_default();
        if command["do"] == "open" {
            let addresses = command["addresses"].as_array().expect("addresses are a list");
            let addresses = addresses.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let most = number("max_in_flight").map_or(1024, |most| most as usize);
            self.client = Some(Client::new(self.fault, addresses, &text("token"), most, self.inbox.clone()));
            return answer(&self.answers, id, &"opened".into());
        }
        let done = self.done(id, text("key"));
        let Some(client) = &mut self.client else { return };
        match command["do"].as_str() {
            Some("acquire") => {
                let ask = Ask {
                    key: text("key"),
                    budget: number("min_work_budget_ms").unwrap_or_default(),
                    wait: number("wait_ms").unwrap_or_default(),
                    lease: number("lease_ms").unwrap_or(30_000),
                    grace: number("response_grace_ms").unwrap_or_default(),
                    may_wait: command.get("try").is_none(),
                };
                let owner = client.acquire(&ask, done);
                self.owners.extend(owner.map(|owner| (id, owner)));
            }
            Some("release") => {
                if let Some((key, token)) = self.tickets.lock().expect("no panic").remove(&of) {
                    client.release(&key, token, done);
                }
            }
            Some("drop") => {
                if let Some((key, token)) = self.tickets.lock().expect("no panic").remove(&of) {
                    client.drop_ticket(&key, token);
                }
                answer(&self.answers, id, &"dropped".into());
            }
            Some("cancel") => {
                if let Some(&owner) = self.owners.get(&of) {
                    client.cancel(owner);
                }
                answer(&self.answers, id, &"cancelled".into());
            }
            Some("close") => client.close(done),
            other => panic!("the command {other:?}"),
        }
    }

    /// Tells the suite how a call ended.
    fn done(&self, id: u64, key: String) -> Done {
        let (answers, tickets) = (Arc::clone(&self.answers), Arc::clone(&self.tickets));
        Box::new(move |outcome| {
            if let Some((token, _)) = outcome.ticket {
                tickets.lock().expect("no panic").insert(id, (key, token));
            }
            answer(&answers, id, &outcome);
        })
    }
}

fn answer(answers: &Mutex<io::PipeWriter>, id: u64, outcome: &Outcome) {
    let Outcome { result, ticket, field, rule } = *outcome;
    let mut line = json!({"id": id, "result": result});
    line["certain"] = (!matches!(result, "indeterminate" | "unconfirmed")).into();
    if let Some((token, left)) = ticket {
        line["token"] = token.to_string().into();
        line["remaining_ms"] = (left.as_millis() as u64).into();
    }
    if let Some((field, max)) = field {
        line["field"] = field.into();
        line["max_ms"] = max.into();
    }
    if let Some((rule, bytes)) = rule {
        line["rule"] = rule.into();
        line["bytes"] = bytes.into();
    }
    // A case that has ended reads no more.
    _ = answers.lock().expect("no panic").write_all(format!("{line}\n").as_bytes());
}
