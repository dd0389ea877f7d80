//! A Redis in memory for tests. It supports what the sessions use, including scripts, and gives the
//! same answers as a real Redis.

use std::collections::{BTreeMap, VecDeque};

use host_core::time::Time;

use crate::messages::{Call, Command, Script, Value};

/// One key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Hash(BTreeMap<String, Vec<u8>>),
    List(VecDeque<String>),
    /// A text, and when it expires.
    Text(String, Time),
}

/// All keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeRedis {
    pub(crate) keys: BTreeMap<String, Entry>,
    pub(crate) now: Time,
    /// The keys that will expire, and in how many seconds.
    pub(crate) expiries: BTreeMap<String, u64>,
    /// The error for every command that writes, if set.
    pub(crate) refuses: Option<&'static str>,
}

fn data(text: &str) -> Value {
    Value::Data(text.as_bytes().to_vec())
}

fn wrong_type() -> Value {
    let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
    Value::Error(text.to_owned())
}

fn writes(command: &Command) -> bool {
    const READS: [&[u8]; 5] = [b"HGET", b"HMGET", b"LLEN", b"LRANGE", b"TYPE"];
    match command {
        Command::Plain(words) => !READS.contains(&words[0].as_slice()),
        Command::Script { .. } => true,
    }
}

impl FakeRedis {
    /// Stores a job as a client does, with `HSET` and `LPUSH`.
    pub(crate) fn enqueue(&mut self, worker: &str, id: &str, fields: &[(&str, &str)]) {
        self.hset(id, fields);
        self.push(&format!("hero:work_queue:{worker}"), id);
    }

    /// Gives a job to a host, for a long time.
    pub(crate) fn claim(&mut self, id: &str, host: &str) {
        self.hold(&format!("hero:claim:{id}"), host, "3600000");
    }

    pub(crate) fn hset(&mut self, id: &str, fields: &[(&str, &str)]) {
        let key = format!("hero:job:{id}");
        for (name, value) in fields {
            self.hash(&key)
                .insert((*name).to_owned(), value.as_bytes().to_vec());
        }
    }

    pub(crate) fn push(&mut self, key: &str, value: &str) {
        self.list(key).push_front(value.to_owned());
    }

    /// Reverses a list.
    pub(crate) fn reverse(&mut self, key: &str) {
        self.list(key).make_contiguous().reverse();
    }

    pub(crate) fn field(&self, id: &str, field: &str) -> Option<String> {
        match self.keys.get(&format!("hero:job:{id}")) {
            Some(Entry::Hash(fields)) => fields
                .get(field)
                .map(|value| String::from_utf8_lossy(value).into_owned()),
            _ => None,
        }
    }

    /// Returns a hash's fields.
    pub(crate) fn texts(&self, key: &str) -> Vec<(String, String)> {
        match self.keys.get(key) {
            Some(Entry::Hash(fields)) => fields
                .iter()
                .map(|(field, value)| (field.clone(), String::from_utf8_lossy(value).into_owned()))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a list, newest entry first.
    pub(crate) fn items(&self, key: &str) -> Vec<String> {
        match self.keys.get(key) {
            Some(Entry::List(items)) => items.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Answers a call. A blocking pop does not wait.
    pub(crate) fn answer(&mut self, call: &Call) -> Vec<Value> {
        let refuses = self.refuses.map(|text| Value::Error(text.to_owned()));
        call.commands
            .iter()
            .map(|command| match command {
                _ if refuses.is_some() && writes(command) => refuses.clone().unwrap_or(Value::Nil),
                Command::Plain(words) => {
                    let texts: Vec<String> = words
                        .iter()
                        .map(|word| String::from_utf8_lossy(word).into_owned())
                        .collect();
                    let words: Vec<&str> = texts.iter().map(String::as_str).collect();
                    self.plain(&words)
                }
                Command::Script { script, keys, args } => {
                    let args: Vec<String> = args
                        .iter()
                        .map(|arg| String::from_utf8_lossy(arg).into_owned())
                        .collect();
                    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                    let args: Vec<&str> = args.iter().map(String::as_str).collect();
                    self.script(*script, &keys, &args)
                }
            })
            .collect()
    }

    fn hash(&mut self, key: &str) -> &mut BTreeMap<String, Vec<u8>> {
        let entry = self.keys.entry(key.to_owned());
        match entry.or_insert_with(|| Entry::Hash(BTreeMap::new())) {
            Entry::Hash(fields) => fields,
            other => panic!("{key} is {other:?}"),
        }
    }

    fn list(&mut self, key: &str) -> &mut VecDeque<String> {
        let entry = self.keys.entry(key.to_owned());
        match entry.or_insert_with(|| Entry::List(VecDeque::new())) {
            Entry::List(items) => items,
            other => panic!("{key} is {other:?}"),
        }
    }

    fn get(&self, key: &str) -> Option<String> {
        match self.keys.get(key) {
            Some(Entry::Text(text, until)) if *until > self.now => Some(text.clone()),
            _ => None,
        }
    }

    fn get_field(&self, key: &str, field: &str) -> Value {
        match self.keys.get(key) {
            Some(Entry::Hash(fields)) => fields
                .get(field)
                .map_or(Value::Nil, |value| Value::Data(value.clone())),
            Some(_) => wrong_type(),
            None => Value::Nil,
        }
    }

    fn remove(&mut self, key: &str, value: &str, count: usize) -> i64 {
        let count = if count == 0 { usize::MAX } else { count };
        let mut removed = 0;
        let items = self.list(key);
        items.retain(|item| {
            let goes = item == value && removed < count;
            removed += usize::from(goes);
            !goes
        });
        i64::try_from(removed).unwrap()
    }

    /// Returns whether a list command names a key that is not a list.
    fn is_wrong_type(&self, words: &[&str]) -> bool {
        let keys = match words {
            ["LMOVE" | "BLMOVE", from, to, ..] => vec![from, to],
            ["LRANGE" | "LLEN" | "LREM" | "LPUSH" | "LTRIM", key, ..] => vec![key],
            _ => return false,
        };
        keys.into_iter().any(|key| {
            let entry = self.keys.get(*key);
            entry.is_some_and(|entry| !matches!(entry, Entry::List(_)))
        })
    }

    pub(crate) fn plain(&mut self, words: &[&str]) -> Value {
        if self.is_wrong_type(words) {
            return wrong_type();
        }
        match words {
            ["LMOVE", from, to, side, "LEFT"] | ["BLMOVE", from, to, side, "LEFT", _] => {
                let items = self.list(from);
                let popped = if *side == "LEFT" {
                    items.pop_front()
                } else {
                    items.pop_back()
                };
                let Some(item) = popped else {
                    return Value::Nil;
                };
                self.push(to, &item);
                data(&item)
            }
            ["LRANGE", key, "0", last] => {
                let last: usize = last.parse().unwrap();
                let items = self.items(key);
                Value::List(items.iter().take(last + 1).map(|item| data(item)).collect())
            }
            ["LLEN", key] => Value::Int(i64::try_from(self.items(key).len()).unwrap()),
            ["LREM", key, count, value] => {
                Value::Int(self.remove(key, value, count.parse().unwrap()))
            }
            ["LPUSH", key, value] => {
                self.push(key, value);
                Value::Int(1)
            }
            ["LTRIM", key, "0", last] => {
                let last: usize = last.parse().unwrap();
                self.list(key).truncate(last + 1);
                data("OK")
            }
            ["HSET", key, pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    let (field, value) = (pair[0].to_owned(), pair[1].as_bytes().to_vec());
                    self.hash(key).insert(field, value);
                }
                Value::Int(0)
            }
            ["HGET", key, field] => self.get_field(key, field),
            ["HGETALL", key] => {
                let fields = self.hash(key).clone().into_iter();
                let pairs = fields.flat_map(|(field, value)| [data(&field), Value::Data(value)]);
                Value::List(pairs.collect())
            }
            ["HMGET", key, fields @ ..] => Value::List(
                fields
                    .iter()
                    .map(|field| self.get_field(key, field))
                    .collect(),
            ),
            ["EXPIRE", key, seconds] => {
                self.expiries
                    .insert((*key).to_owned(), seconds.parse().unwrap());
                Value::Int(1)
            }
            ["TYPE", key] => data(match self.keys.get(*key) {
                None => "none",
                Some(Entry::Hash(_)) => "hash",
                Some(Entry::List(_)) => "list",
                Some(Entry::Text(..)) => "string",
            }),
            ["ZADD", key, "XX", score, id] => {
                if let Some(Entry::Hash(resting)) = self.keys.get_mut(*key)
                    && let Some(end) = resting.get_mut(*id)
                {
                    *end = score.as_bytes().to_vec();
                }
                Value::Int(0)
            }
            ["DEL", key] => {
                self.keys.remove(*key);
                Value::Int(1)
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    fn script(&mut self, script: Script, keys: &[&str], args: &[&str]) -> Value {
        match script {
            Script::Claim => self.take(keys, args),
            Script::Start => {
                if self.get(keys[1]).is_some_and(|holder| holder != args[0]) {
                    return data("held");
                }
                let turn = keys.get(2).map(|key| self.get(key));
                if turn.is_some_and(|turn| turn.as_deref() != Some(args[2])) {
                    return data("held");
                }
                if !matches!(self.keys.get(keys[0]), Some(Entry::Hash(_))) {
                    return data("gone");
                }
                if self.has_ended(keys[0]) {
                    self.keys.remove(keys[1]);
                    return data("ended");
                }
                self.plain(&["HSET", keys[0], "status", "started", "updated_at", args[1]]);
                data("started")
            }
            Script::Finish => self.finish(keys, args),
            Script::Renew => self.renew(keys, args),
            Script::Turn => self.turn(keys, args),
            Script::Release => {
                if self.get(keys[1]).is_some_and(|holder| holder != args[1]) {
                    return data("held");
                }
                self.keys.remove(keys[1]);
                self.end_turn(keys.get(5), args[0]);
                if self.remove(keys[2], args[0], 0) == 0 {
                    return data("gone");
                }
                if self.get_field(keys[0], "status") == data("started") {
                    let begun = ["status", "dispatched", "updated_at", args[3]];
                    self.plain(&[&["HSET", keys[0]], &begun[..]].concat());
                }
                if args[2] == "REST" {
                    let until = args[4].as_bytes().to_vec();
                    self.hash(keys[4]).insert(args[0].to_owned(), until);
                    if matches!(self.keys.get(keys[0]), Some(Entry::Hash(_))) {
                        self.plain(&["HSET", keys[0], "attempt", args[5]]);
                    }
                    return data("released");
                }
                let queue = self.list(keys[3]);
                if args[2] == "LEFT" {
                    queue.push_front(args[0].to_owned());
                } else {
                    queue.push_back(args[0].to_owned());
                }
                data("released")
            }
            Script::Submit => {
                if self.keys.contains_key(keys[0]) {
                    return data("known");
                }
                for pair in args[1..].chunks(2) {
                    let value = pair[1].as_bytes().to_vec();
                    self.hash(keys[0]).insert(pair[0].to_owned(), value);
                }
                self.push(keys[1], args[0]);
                data("queued")
            }
            Script::Read => {
                let read = |key: &&str| {
                    let Some(Entry::Hash(fields)) = self.keys.get(*key) else {
                        return Value::Nil;
                    };
                    let values = args.chunks(2).map(|pair| match fields.get(pair[0]) {
                        None => Value::Nil,
                        Some(value) if value.len() > pair[1].parse().unwrap() => {
                            Value::Int(i64::try_from(value.len()).unwrap())
                        }
                        Some(value) => Value::Data(value.clone()),
                    });
                    Value::List(values.collect())
                };
                Value::List(keys.iter().map(read).collect())
            }
            Script::Links => self.links(keys),
            Script::Bury => self.bury(keys, args),
            Script::Withdraw => self.withdraw(keys, args),
            Script::Again => self.queue_again(keys, args),
            Script::Absent => {
                let mut listed: Vec<String> = keys.iter().flat_map(|key| self.items(key)).collect();
                listed.extend(self.hash(keys[2]).keys().cloned());
                let absent = (0..)
                    .zip(&args[1..])
                    .filter(|(_, id)| !listed.iter().any(|other| other == *id));
                Value::List(absent.map(|(place, _)| Value::Int(place)).collect())
            }
            Script::Wake => self.wake(keys, args),
            other => panic!("the model does not know {other:?}"),
        }
    }

    /// The jobs that rest are a hash here, with the end of each rest.
    fn wake(&mut self, keys: &[&str], args: &[&str]) -> Value {
        let until = |text: &[u8]| -> i64 { String::from_utf8_lossy(text).parse().unwrap() };
        let now = until(args[0].as_bytes());
        let mut resting = std::mem::take(self.hash(keys[0]));
        for (id, _) in resting.extract_if(.., |_, end| until(end) <= now) {
            self.push(keys[1], &id);
        }
        let rest = i64::try_from(resting.len()).unwrap();
        *self.hash(keys[0]) = resting;
        Value::Int(rest)
    }

    fn links(&self, keys: &[&str]) -> Value {
        let lists = |key: &&str| {
            let status = self.get_field(key, "status");
            let begun = status != Value::Nil && status != data("dispatched");
            if begun || !matches!(self.keys.get(*key), Some(Entry::Hash(_))) {
                return Value::Nil;
            }
            let lists = ["waits_for", "prerequisites", "dependencies"];
            Value::List(lists.map(|list| self.get_field(key, list)).to_vec())
        };
        Value::List(keys.iter().map(lists).collect())
    }

    fn bury(&mut self, keys: &[&str], args: &[&str]) -> Value {
        let taken = self.items(keys[1]).iter().any(|item| item == args[2]);
        if args[3] == "1" && !taken {
            return data("gone");
        }
        let hash = keys.get(2).map(|key| (key, self.keys.get(*key)));
        if let Some((key, Some(Entry::Hash(_)))) = hash
            && !self.has_ended(key)
        {
            return data("open");
        }
        self.push(keys[0], args[0]);
        let last = args[1].parse::<usize>().unwrap() - 1;
        self.plain(&["LTRIM", keys[0], "0", &last.to_string()]);
        if args[3] == "1" {
            self.remove(keys[1], args[2], 1);
        }
        data("buried")
    }

    fn renew(&mut self, keys: &[&str], args: &[&str]) -> Value {
        let (taken, claims): (usize, usize) = (args[2].parse().unwrap(), args[3].parse().unwrap());
        let mut lost = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let holder = self.get(key);
            let (wanted, ms) = match index.checked_sub(claims) {
                Some(context) => (args[5 + context], args[4]),
                None => (args[0], args[1]),
            };
            if holder.as_deref() == Some(wanted) || (holder.is_none() && index < taken) {
                self.hold(key, wanted, ms);
            } else if holder.is_some() || index >= claims {
                lost.push(Value::Int(i64::try_from(index).unwrap() + 1));
            }
        }
        Value::List(lost)
    }

    fn turn(&mut self, keys: &[&str], args: &[&str]) -> Value {
        if self.get(keys[1]).as_deref() != Some(args[0]) {
            return data("lost");
        }
        let other = self.get(keys[0]).filter(|other| other != args[1]);
        if let Some(other) = other
            && self.get(&format!("hero:claim:{other}")).is_some()
        {
            return data(&other);
        }
        self.hold(keys[0], args[1], args[2]);
        data("taken")
    }

    /// Ends a job's turn, and returns whether it had it.
    fn end_turn(&mut self, context: Option<&&str>, id: &str) -> bool {
        let Some(context) = context.filter(|key| self.get(key).as_deref() == Some(id)) else {
            return false;
        };
        self.keys.remove(*context);
        true
    }

    fn hold(&mut self, key: &str, instance: &str, ms: &str) {
        let until = self.now.plus_ms(ms.parse().unwrap());
        self.keys
            .insert(key.to_owned(), Entry::Text(instance.to_owned(), until));
    }

    fn queue_again(&mut self, keys: &[&str], args: &[&str]) -> Value {
        if !self.keys.contains_key(keys[0]) || self.has_ended(keys[0]) {
            return data("ended");
        }
        if !self.items(keys[1]).iter().any(|item| item == args[0]) {
            self.push(keys[1], args[0]);
        }
        self.remove(keys[2], args[0], 0);
        let dispatched = ["status", "dispatched", "updated_at", args[1]];
        self.plain(&[&["HSET", keys[0]], &dispatched[..]].concat());
        data("queued")
    }

    fn withdraw(&mut self, keys: &[&str], args: &[&str]) -> Value {
        let (id, there) = (args[0], self.keys.contains_key(keys[0]));
        let mut outcome = "ended";
        if there && !self.has_ended(keys[0]) {
            if self.remove(keys[1], id, 0) > 0 {
                let error = ["status", "error", "error", args[2], "updated_at", args[1]];
                self.plain(&[&["HSET", keys[0]], &error[..]].concat());
                outcome = "withdrawn";
            } else if args[5] == "1" {
                return data("taken");
            } else {
                if !self.items(keys[2]).iter().any(|other| other == id) {
                    self.push(keys[2], id);
                }
                outcome = "asked";
            }
            if let Some(out) = self.hash(keys[4]).get_mut(id) {
                out.truncate(out.iter().position(|it| *it == b' ').unwrap_or(out.len()));
            }
        }
        if outcome != "asked" {
            self.remove(keys[2], id, 0);
        }
        if args[3] == "1" {
            if there {
                self.plain(&["EXPIRE", keys[0], args[4]]);
            }
            if outcome != "asked" {
                self.keys.remove(keys[3]);
                self.hash(keys[4]).remove(id);
            }
        }
        data(outcome)
    }

    fn has_ended(&self, key: &str) -> bool {
        let status = self.get_field(key, "status");
        status == data("finished") || status == data("error")
    }

    fn take(&mut self, keys: &[&str], args: &[&str]) -> Value {
        let fields = match self.keys.get(keys[0]) {
            None => return Value::List(vec![data("missing")]),
            Some(Entry::Hash(fields)) => fields.clone(),
            Some(_) => return Value::List(vec![data("no_hash")]),
        };
        if self.has_ended(keys[0]) {
            return Value::List(vec![data("ended")]);
        }
        if self.get(keys[1]).is_some_and(|holder| holder != args[1]) {
            return Value::List(vec![data("held")]);
        }
        if self.get(keys[1]).is_none() && args[4] == "0" {
            return Value::List(vec![data("free")]);
        }
        self.hold(keys[1], args[1], args[2]);
        let stop = self.items(keys[2]).iter().any(|id| id == args[0]);
        let mut found = vec![data("claimed"), Value::Int(i64::from(stop))];
        let count: usize = args[5].parse().unwrap();
        let (wanted, longest) = args[6..].split_at(count);
        for (field, bytes_max) in wanted.iter().zip(longest) {
            let bytes_max: usize = bytes_max.parse().unwrap();
            found.push(match fields.get(*field) {
                None => Value::Nil,
                Some(value) if value.len() > bytes_max => {
                    Value::Int(i64::try_from(value.len()).unwrap())
                }
                Some(value) => Value::Data(value.clone()),
            });
        }
        Value::List(found)
    }

    fn finish(&mut self, keys: &[&str], args: &[&str]) -> Value {
        if self.get(keys[1]).is_some_and(|holder| holder != args[1]) {
            return data("held");
        }
        let had_turn = self.end_turn(keys.get(5), args[0]);
        if !had_turn && args[10] == "1" {
            return data("held");
        }
        self.remove(keys[2], args[0], 0);
        if args[9] == "1" {
            self.remove(keys[4], args[0], 0);
        }
        self.keys.remove(keys[1]);
        if self.has_ended(keys[0]) {
            return data("ended");
        }
        if self.keys.contains_key(keys[0]) {
            let written = [
                "HSET",
                keys[0],
                "status",
                args[2],
                args[3],
                args[4],
                "updated_at",
                args[5],
            ];
            self.plain(&written);
            let other = if args[3] == "output" {
                "error"
            } else {
                "output"
            };
            self.hash(keys[0]).remove(other);
            if args[8] != "0" {
                self.plain(&["EXPIRE", keys[0], args[8]]);
            }
        }
        let reply = if args[3] == "output" {
            args[4]
        } else {
            args[6]
        };
        self.push(keys[3], reply);
        self.plain(&["EXPIRE", keys[3], args[7]]);
        data("written")
    }
}
