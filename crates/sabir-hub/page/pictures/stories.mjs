// The runs that the pictures show. They are made up; agents are written as they log, so that everything after the log is real.
//
// A step is one response of the model: what it thinks and says, and the calls that it makes, all at once.

const red = (text) => `\u001b[31m${text}\u001b[0m`;
const green = (text) => `\u001b[32m${text}\u001b[0m`;
const bold = (text) => `\u001b[1m${text}\u001b[0m`;

const PLAN = ["Measure a request under load", "Find what holds the connection", "Give it back before ranking", "Run the load test again"];
const plan = (done) => ({
  name: "TodoWrite",
  input: { todos: PLAN.map((content, place) => ({ content, activeForm: content, status: place < done ? "completed" : place === done ? "in_progress" : "pending" })) },
  output: "Todos have been modified successfully.",
  took: 40,
});

const POOL = `@@ -41,17 +41,24 @@
 impl Search {
     pub async fn run(&self, query: &Query) -> Result<Page, Error> {
-        let mut connection = self.pool.get().await?;
-        let rows = connection.matches(query).await?;
-        // Ranking asks the model server, which takes its time.
-        let ranked = self.ranker.rank(query, rows).await?;
-        Ok(Page::of(ranked, query.limit))
+        let rows = self.matches(query).await?;
+        // No connection is held here: ranking waits for the model server.
+        let ranked = self.ranker.rank(query, rows).await?;
+        Ok(Page::of(ranked, query.limit))
     }
+
+    /// What fits, read with a connection that is given back at once.
+    async fn matches(&self, query: &Query) -> Result<Vec<Row>, Error> {
+        let mut connection = self.pool.get().await?;
+        connection.matches(query).await
+    }
 
     pub fn pool(&self) -> &Pool {
         &self.pool
     }
 }`;

const LOAD = `@@ -12,4 +12,14 @@
 #[tokio::test]
 async fn answers_are_ranked() {
     let search = fixture().await;
     assert_eq!(search.run(&query("rust")).await?.first(), Some("book"));
 }
+
+#[tokio::test]
+async fn a_slow_ranker_holds_no_connection() {
+    let search = fixture().with_pool(1).with_slow_ranker();
+    let first = search.run(&query("rust"));
+    let second = search.pool().get();
+    let (_, free) = tokio::join!(first, second);
+    assert!(free.is_ok(), "the pool has a connection while ranking waits");
+}
+`;

const FAILS = `Exit code 101
   ${bold(green("Compiling"))} atlas v0.9.2 (/home/user/atlas)
    ${bold(green("Finished"))} \`test\` profile [unoptimized + debuginfo] target(s) in 6.41s
     ${bold(green("Running"))} tests/load.rs

running 3 tests
test answers_are_ranked ... ${green("ok")}
test an_empty_query_is_refused ... ${green("ok")}
test fifty_at_once ... ${red("FAILED")}

failures:

---- fifty_at_once stdout ----
thread 'fifty_at_once' panicked at tests/load.rs:31:5:
38 of 50 requests timed out: Error(Pool(Timeout(Wait)))

test result: ${red("FAILED")}. 2 passed; 1 failed; finished in 10.02s`;

const PASSES = `    ${bold(green("Finished"))} \`test\` profile [unoptimized + debuginfo] target(s) in 4.87s
     ${bold(green("Running"))} tests/load.rs

running 4 tests
test answers_are_ranked ... ${green("ok")}
test an_empty_query_is_refused ... ${green("ok")}
test a_slow_ranker_holds_no_connection ... ${green("ok")}
test fifty_at_once ... ${green("ok")}

test result: ${green("ok")}. 4 passed; 0 failed; finished in 1.28s`;

const SOURCE = `    41→impl Search {
    42→    pub async fn run(&self, query: &Query) -> Result<Page, Error> {
    43→        let mut connection = self.pool.get().await?;
    44→        let rows = connection.matches(query).await?;
    45→        // Ranking asks the model server, which takes its time.
    46→        let ranked = self.ranker.rank(query, rows).await?;
    47→        Ok(Page::of(ranked, query.limit))
    48→    }`;

/** The run that is looked at closely: a plan, a sub-agent, calls at the same time, one that fails, a diff, an answer. */
export const FEATURED = {
  agent: "claude-code", model: "claude-sonnet-4-5-20250929", project: "atlas", ago: 12, grown: 18_400, exact: true,
  prompt: "Search times out when fifty people use it at once. Find out why, fix it, and add a test that would have caught it.",
  steps: [
    { think: "Fifty at once and timeouts: that smells like a pool that runs dry. I should reproduce it before I read too much code.", say: "I'll reproduce it first, then look at who holds connections.", calls: [plan(0)], took: 5200 },
    { calls: [{ name: "Bash", input: { command: "cargo test --test load", description: "Run the load test" }, output: FAILS, failed: true, took: 17_300 }], took: 2600 },
    {
      say: "Reproduced: 38 of 50 wait for a connection that never comes. Now to see who keeps them.", took: 4100,
      calls: [
        {
          name: "Agent", input: { description: "Find who holds connections", prompt: "Find every place that takes a connection from the pool, and say what it awaits while it has it.", subagent_type: "Explore" }, took: 21_500,
          output: "Three places take one. Two give it back at once; `Search::run` (src/search.rs:43) keeps it while it awaits the ranker.",
          beneath: [
            { calls: [{ name: "Grep", input: { pattern: "pool\\.get\\(\\)", path: "src" }, output: "src/search.rs:43\nsrc/users.rs:18\nsrc/health.rs:9", took: 310 }], took: 3100 },
            { calls: [{ name: "Read", input: { file_path: "/home/user/atlas/src/users.rs" }, output: "    18→        let connection = self.pool.get().await?;", took: 120 }, { name: "Read", input: { file_path: "/home/user/atlas/src/search.rs" }, output: SOURCE, took: 180 }], took: 3900 },
            { say: "Three places take one. Two give it back at once; `Search::run` (src/search.rs:43) keeps it while it awaits the ranker.", took: 6000 },
          ],
        },
        { name: "Read", input: { file_path: "/home/user/atlas/src/search.rs", offset: 41, limit: 8 }, output: SOURCE, took: 240 },
        { name: "Bash", input: { command: "grep -n 'max_size\\|wait' config/default.toml" }, output: "14:max_size = 12\n15:wait_timeout = \"10s\"", took: 420 },
      ],
    },
    { think: "Twelve connections, ranking takes seconds. The connection is only needed for the query itself.", say: "`Search::run` keeps its connection while it waits for the ranker. Twelve of those and the pool is empty.", calls: [plan(2)], took: 6400 },
    { calls: [{ name: "Edit", input: { file_path: "/home/user/atlas/src/search.rs", old_string: "let mut connection", new_string: "let rows" }, patch: POOL, output: "The file /home/user/atlas/src/search.rs has been updated.", took: 350 }, { name: "Edit", input: { file_path: "/home/user/atlas/tests/load.rs", old_string: "}", new_string: "}" }, patch: LOAD, output: "The file /home/user/atlas/tests/load.rs has been updated.", took: 330 }], took: 11_800 },
    { calls: [{ name: "Bash", input: { command: "cargo test --test load", description: "Run the load test again" }, output: PASSES, took: 8_900 }], took: 2100 },
    { calls: [plan(4)], took: 1900 },
    {
      say: "Search no longer times out: **50 of 50** requests are answered, the slowest in 1.1 s.\n\n- `Search::run` held a pool connection while it awaited the ranker; it now gives it back first (`src/search.rs`).\n- `a_slow_ranker_holds_no_connection` fails on the old code and passes on the new.\n\nThe pool size is unchanged. If ranking gets slower still, it will queue there and not in the database.", took: 7300,
    },
  ],
};

/** What the live run does until the picture is taken. It is printed as `claude -p` prints, by a program of that name. */
export const LIVE = {
  prompt: "Move the invoice export to the new date type, everywhere, and keep the tests green.",
  project: "ledger",
  model: "claude-sonnet-4-5-20250929",
  said: "Seven call sites use the old type. I'll change them one by one and run the tests after each.",
  command: "cargo nextest run -p ledger-export",
};

const routine = (looks, command, output, words) => [
  { say: "I'll look at what is there first.", calls: looks.map((file) => ({ look: file, took: 300 })), took: 3900 },
  { calls: [{ command, output, took: 5200 }], took: 3100 },
  { say: words, took: 4800 },
];

/** What else was done: the list and the figures by day come from these. */
export const OTHERS = [
  { agent: "codex", model: "gpt-5.2-codex", project: "ledger", ago: 24, prompt: "The nightly export is empty since Tuesday. Bisect it.", grown: 23_100, steps: routine(["export/nightly.py", "export/rows.py"], "git bisect run ./check-export.sh", "c41d9a7 is the first bad commit\n    export: read rows in pages\n", "The first bad commit is `c41d9a7`: the last page is dropped when it is not full. A one-line fix is on the branch `export-last-page`.") },
  { agent: "gemini", model: "gemini-2.5-pro", project: "website", ago: 58, prompt: "Make the pricing table readable on phones", grown: 15_900, steps: routine(["src/pricing.css"], "npx playwright test pricing", "6 passed (4.1s)", "Below 640 px each plan is a card of its own. All six visual tests pass.") },
  { agent: "codex", model: "gpt-5.2-codex", project: "atlas", ago: 95, failed: "exceeded retry limit, last status: 429 Too Many Requests", prompt: "Write a migration that splits users.name, with a way back", grown: 11_200, steps: routine(["migrations/0041_users.sql"], "sqlx migrate run", "Applied 42/migrate split name (31ms)", "").slice(0, 2) },
  { agent: "pi", model: "claude-haiku-4-5-20251001", project: "dotfiles", ago: 150, prompt: "Which of these shell aliases shadow a real program?", grown: 4_100, steps: routine(["aliases.sh"], "for a in $(sed -n 's/^alias \\([^=]*\\)=.*/\\1/p' aliases.sh); do type -a $a; done", "ls is aliased\nls is /usr/bin/ls\ngd is aliased", "Only `ls`, and that one is meant.") },
  { agent: "claude-code", model: "claude-opus-4-5-20251101", project: "atlas", ago: 260, prompt: "Review the branch ranker-v2: correctness first, then naming", grown: 41_700, steps: routine(["src/ranker/mod.rs", "src/ranker/score.rs", "src/ranker/cache.rs"], "git diff main...ranker-v2 --stat", " 9 files changed, 412 insertions(+), 188 deletions(-)", "Two things to mend before merging: `score` divides by a length that may be nought, and the cache is keyed by the query alone.") },
  { agent: "gemini", model: "gemini-2.5-pro", project: "ledger", ago: 420, prompt: "Explain where rounding happens in an invoice, with line numbers", grown: 19_300, steps: routine(["invoice/total.py", "invoice/tax.py"], "grep -rn 'round(' invoice", "invoice/total.py:88\ninvoice/tax.py:31", "In two places: per line in `tax.py:31`, and once more for the sum in `total.py:88`.") },
  { agent: "claude-code", model: "claude-sonnet-4-5-20250929", project: "website", ago: 1_180, prompt: "Replace moment by the platform's own date formatting", grown: 16_800, steps: routine(["src/dates.ts", "package.json"], "npm test -- --run", "Tests  214 passed (214)", "`moment` is gone: 71 KB less, 214 tests pass.") },
  { agent: "codex", model: "gpt-5.2-codex", project: "atlas", ago: 1_420, prompt: "Why is CI three minutes slower than last week?", grown: 27_500, steps: routine([".github/workflows/ci.yml"], "gh run list --limit 40 --json createdAt,updatedAt", "[{\"createdAt\":\"…\"}]", "The cache key contains the day, so that every first build of a day is cold.") },
  { agent: "claude-code", model: "claude-sonnet-4-5-20250929", project: "ledger", ago: 2_700, prompt: "Add a dry-run flag to the importer", grown: 13_700, steps: routine(["import/main.py"], "pytest -q import", "38 passed in 2.11s", "`--dry-run` reads and checks everything and writes nothing. 38 tests pass.") },
  { agent: "pi", model: "claude-haiku-4-5-20251001", project: "website", ago: 3_100, prompt: "Find links in docs/ that lead nowhere", grown: 5_400, steps: routine(["docs/index.md"], "lychee docs", "2 errors, 187 ok", "Two of 189: both in `docs/install.md`.") },
  { agent: "codex", model: "gpt-5.2-codex", project: "website", ago: 4_500, prompt: "Turn the newsletter form into a server action", grown: 17_300, steps: routine(["app/newsletter/page.tsx"], "npm run build", "✓ Compiled successfully", "The form posts to a server action and works without JavaScript.") },
];
