//! Plays all scenarios that RocketMQ 5's SDK for Rust knows, and prints one JSON document.
//!
//! Arguments: endpoints, "tls" or "plain", access key, secret. The SDK has neither push consumers
//! nor recalls, and changes no invisible times.

use std::collections::{BTreeSet, HashMap};
use std::io::{stdin, stdout, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};

const PATIENCE: Duration = Duration::from_secs(40);
const INVISIBLE: Duration = Duration::from_secs(30);

// The SDK takes no answer of more than 4 MiB, and a message is more than its body.
const LARGE: usize = 4 * 1024 * 1024 - 4096;

type Fault = Box<dyn std::error::Error>;

fn connection() -> ClientOption {
    let arguments: Vec<String> = std::env::args().collect();
    let mut out = ClientOption::default();
    out.set_access_url(&arguments[1]);
    out.set_enable_tls(arguments[2] == "tls");
    out.set_long_polling_timeout(Duration::from_secs(10));
    if arguments.len() > 4 && !arguments[3].is_empty() {
        out.set_access_key(&arguments[3]);
        out.set_secret_key(&arguments[4]);
    }
    out
}

fn message(topic: &str, body: impl Into<Vec<u8>>) -> MessageBuilder {
    MessageBuilder::builder().set_topic(topic).set_body(body.into())
}

fn text(view: &MessageView) -> String {
    String::from_utf8_lossy(view.body()).into_owned()
}

async fn producer(topic: &str) -> Result<Producer, Fault> {
    let mut options = ProducerOption::default();
    options.set_topics(vec![topic]);
    let mut out = Producer::new(options, connection())?;
    out.start().await?;
    Ok(out)
}

async fn consumer(group: &str, topic: &str) -> Result<SimpleConsumer, Fault> {
    let mut options = SimpleConsumerOption::default();
    options.set_consumer_group(group);
    options.set_topics(vec![topic]);
    let mut out = SimpleConsumer::new(options, connection())?;
    out.start().await?;
    Ok(out)
}

/// Messages in the order in which they came, as many as wanted or more.
async fn received(
    group: &str,
    topic: &str,
    count: usize,
    filter: FilterExpression,
) -> Result<Vec<MessageView>, Fault> {
    let consumer = consumer(group, topic).await?;
    let (mut views, start) = (vec![], Instant::now());
    while views.len() < count && start.elapsed() < PATIENCE {
        for view in consumer.receive_with(topic, &filter, 32, INVISIBLE).await? {
            consumer.ack(&view).await?;
            views.push(view);
        }
    }
    consumer.shutdown().await?;
    Ok(views)
}

/// Bodies, long ones by their length.
fn bodies(views: &[MessageView]) -> Vec<String> {
    let short = |body: String| match body.len() {
        length if length > 100 => format!("long {length}"),
        _ => body,
    };
    views.iter().map(text).map(short).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

async fn simple(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Normal").await?;
    let first = message("Normal", "first").set_tag("A").set_keys(vec!["k1"]);
    sender.send(first.set_properties(HashMap::from([("p", "v")])).build()?).await?;
    sender.send(message("Normal", "unwanted").set_tag("B").build()?).await?;
    sender.send(message("Normal", vec![b'x'; LARGE]).set_tag("A").build()?).await?;
    sender.shutdown().await?;
    let views = received("simple", "Normal", 2, FilterExpression::new(FilterType::Tag, "A")).await?;
    if let Some(view) = views.iter().find(|view| view.body() == b"first") {
        seen.insert("properties".into(), json!(view.properties()));
        seen.insert("keys".into(), json!(view.keys()));
    }
    seen.insert("simple".into(), json!(sorted(bodies(&views))));
    Ok(())
}

async fn filters(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Filtered").await?;
    for a in 1..=5 {
        let one = message("Filtered", format!("a{a}"));
        sender.send(one.set_properties(HashMap::from([("a", a.to_string())])).build()?).await?;
    }
    sender.shutdown().await?;
    let filter = FilterExpression::new(FilterType::Sql, "a > 3 AND a IS NOT NULL");
    let views = received("filtered", "Filtered", 2, filter).await?;
    seen.insert("filtered".into(), json!(sorted(bodies(&views))));
    Ok(())
}

async fn batch(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Batch").await?;
    for i in 0..32 {
        sender.send(message("Batch", format!("m{i}")).build()?).await?;
    }
    sender.shutdown().await?;
    seen.insert("batch".into(), json!(bodies(&received("batch", "Batch", 1, all()).await?)));
    Ok(())
}

/// A client of remoting has sent the message, compressed.
async fn remoting(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let views = received("remoting", "Remoting", 1, all()).await?;
    seen.insert("remoting".into(), json!(bodies(&views)));
    Ok(())
}

async fn order(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Ordered").await?;
    for i in 0..6 {
        let one = message("Ordered", format!("m{i}")).set_message_group("g");
        sender.send(one.build()?).await?;
    }
    sender.shutdown().await?;
    seen.insert("ordered".into(), json!(bodies(&received("ordered", "Ordered", 6, all()).await?)));
    Ok(())
}

async fn delay(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Delayed").await?;
    let due = SystemTime::now() + Duration::from_secs(3);
    let due_s = due.duration_since(UNIX_EPOCH)?.as_secs() as i64;
    sender.send(message("Delayed", "later").set_delivery_timestamp(due_s).build()?).await?;
    sender.shutdown().await?;
    let mut got = bodies(&received("delayed", "Delayed", 1, all()).await?);
    if (SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64) < due_s {
        got.push("early".into());
    }
    seen.insert("delayed".into(), json!(got));
    Ok(())
}

async fn transactions(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let mut options = ProducerOption::default();
    options.set_topics(vec!["Half"]);
    let checker = Box::new(|_id, view: MessageView| match view.body() {
        b"orphan" => TransactionResolution::COMMIT,
        _ => TransactionResolution::ROLLBACK,
    });
    let mut sender = Producer::new_transaction_producer(options, connection(), checker)?;
    sender.start().await?;
    for body in ["committed", "rolled back", "orphan"] {
        let half = MessageBuilder::transaction_message_builder("Half", body.into()).build()?;
        let transaction = sender.send_transaction_message(half).await?;
        match body {
            "committed" => transaction.commit().await?,
            "rolled back" => transaction.rollback().await?,
            _ => {}
        }
    }
    let views = received("half", "Half", 2, all()).await?;
    seen.insert("transactions".into(), json!(sorted(bodies(&views))));
    Ok(())
}

/// Goes on by itself after its broker was gone; a line of standard input tells that it was.
async fn restart(seen: &mut Map<String, Value>) -> Result<(), Fault> {
    let sender = producer("Normal").await?;
    sender.send(message("Normal", "before").build()?).await?;
    let consumer = consumer("restart", "Normal").await?;
    let (mut got, mut is_sent, start) = (BTreeSet::new(), false, Instant::now());
    while !got.contains("after") && start.elapsed() < PATIENCE {
        if got.contains("before") && !is_sent {
            println!("ready");
            stdout().flush()?;
            stdin().read_line(&mut String::new())?;
            is_sent = sender.send(message("Normal", "after").build()?).await.is_ok();
        }
        match consumer.receive_with("Normal", &all(), 16, INVISIBLE).await {
            Ok(views) => {
                for view in views {
                    got.insert(text(&view));
                    consumer.ack(&view).await?;
                }
            }
            Err(fault) => {
                eprintln!("{fault}"); // while the broker is not back
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    seen.insert("restart".into(), json!(got));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let mut seen = Map::new();
    if std::env::args().any(|argument| argument == "restart") {
        restart(&mut seen).await?;
    } else {
        simple(&mut seen).await?;
        filters(&mut seen).await?;
        batch(&mut seen).await?;
        remoting(&mut seen).await?;
        order(&mut seen).await?;
        delay(&mut seen).await?;
        transactions(&mut seen).await?;
    }
    println!("{}", json!(seen));
    Ok(())
}
