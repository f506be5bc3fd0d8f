// The third part of the prelude: the functions that a script calls.

let ended = false;
let lastId = 0;
let outstanding = 0;
let alone = null; // the pause or checkpoint that is outstanding
let queued = 0; // calls queued so far, and how many of them have left
let sent = 0;
let turnBytes = 0;
let overflowed = false;
const outbox = create(null); // number -> JSON text of a call
const outPlaces = create(null);
const pending = create(null); // call id -> tracked promise
const stepIds = create(null);
const tracked = create(null);
let trackedCount = 0;

// A promise whose own `constructor` resists a patched Promise.prototype, and tells that the script used it:
// await, then, catch, finally, the combinators, return and yield all read it.
function track(label, place) {
  const t = {
    __proto__: null, label, place, used: false, settled: false, error: null, resolve: null, reject: null, promise: null,
  };
  t.promise = new EnginePromise((resolve, reject) => {
    t.resolve = resolve;
    t.reject = reject;
  });
  defineProperty(t.promise, "constructor", {
    __proto__: null, get() { t.used = true; return EnginePromise; }, enumerable: false, configurable: false,
  });
  tracked[trackedCount] = t;
  trackedCount++;
  return t;
}

function settle(t, ok, result) {
  const { resolve, reject } = t;
  t.settled = true;
  t.promise = t.resolve = t.reject = null;
  if (ok) {
    resolve(result);
  } else {
    t.error = { __proto__: null, thrown: result };
    reject(result);
  }
}

function refused(t, error) {
  if (recordOf(error) !== null) apply(weakSet, places, [error, t.place]);
  settle(t, false, error);
}

// ---- arguments -----------------------------------------------------------------------------------------

const STEP_ID = /^[A-Za-z0-9_-]{1,80}$/;

function shown(v) {
  if (typeof v !== "string") return v === null ? "null" : v === undefined ? "undefined" : "a " + typeof v;
  return quote(v.length > 80 ? apply(slice, v, [0, 80]) + "…" : v);
}
const invalid = (message) => refuse("invalid_argument", message);

function checkOptions(name, options, known) {
  if (typeof options !== "object" || options === null || isArray(options)) {
    throw invalid(name + "() takes one object, for example " + name + "(" + known.example + ").");
  }
  const keys = ownKeys(options);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key === "symbol" || !hasOwn(known.keys, key)) {
      throw invalid(name + "() does not know the option " + shown(key) + "; it takes " + known.list + ".");
    }
  }
}

function stepId(name, key, id) {
  if (typeof id === "string" && apply(exec, STEP_ID, [id]) !== null) return id;
  throw refuse("invalid_step_id",
    name + "() needs a " + key + " of 1 to 80 letters, digits, underscores or hyphens, not " + shown(id) + ".");
}

function string(name, what, v, most) {
  if (typeof v !== "string" || v === "") {
    throw invalid(name + "() needs " + what + " as text, not " + shown(v) + ".");
  }
  if (v.length > most) {
    throw invalid(name + "() takes " + what + " of at most " + most + " characters, not " + v.length + ".");
  }
  return encodeString(v, "The " + what + " of " + name + "()");
}

function artifactList(list) {
  if (!isArray(list)) throw invalid("agent() needs artifacts as a list of artifact versions.");
  const { length } = list;
  let json = "[";
  for (let i = 0; i < length; i++) json += (i > 0 ? "," : "") + string("agent", "artifact version", list[i], 256);
  return json + "]";
}

// The script may catch this, but the turn ends in a fault all the same.
function admit(call) {
  turnBytes += call.length;
  if (queued - sent < TURN_CALLS && turnBytes <= TURN_BYTES) return;
  overflowed = true;
  throw refuse("call_limit", "The script makes too many calls in one turn.");
}

// ---- calls that are answered ---------------------------------------------------------------------------

// `build` reads the script's options and returns the call's fields as JSON text. After it no code of the
// script runs, and everything that can fail for want of memory or stack comes before the counters move.
function issue(name, options, place, known, build) {
  const t = track(name + "()", place);
  const { promise } = t;
  try {
    checkOptions(name, options, known);
    const id = known.keys.stepId ? stepId(name, "stepId", options.stepId) : null;
    const label = id === null ? t.label : "step '" + id + "'";
    const fields = build(options, label);
    if (ended) throw refuse("finished", name + "() was called after the script had ended.");
    if (id !== null && stepIds[id]) {
      throw refuse("duplicate_step_id", "The stepId '" + id + "' is used twice; each names one step of the run.");
    }
    if (alone !== null) {
      throw refuse("not_alone", name + "() was called while " + alone.label + " waits for a person. Await that first.");
    }
    if (known.alone && outstanding > 0) {
      throw refuse("not_alone", name + "() must be awaited alone, and " + outstanding +
        (outstanding === 1 ? " call is" : " calls are") + " outstanding. Await what came before.");
    }
    const number = lastId + 1;
    const call = '{"id":' + number + ',"op":"' + known.op + '"' +
      (id === null ? "" : ',"step_id":' + quote(id)) + fields + "}";
    admit(call);
    outPlaces[queued] = place;
    outbox[queued] = call;
    pending[number] = t;
    if (id !== null) stepIds[id] = true;
    t.label = label;
    if (known.alone) alone = t;
    lastId = number;
    outstanding++;
    queued++;
  } catch (error) {
    refused(t, error);
  }
  return promise;
}

function operation(op, keys, example, isAlone) {
  const known = { __proto__: null, op, keys: create(null), list: apply(join, keys, [", "]), example, alone: isAlone };
  for (const key of keys) known.keys[key] = true;
  return known;
}
const AGENT = operation("agent", ["stepId", "agentRef", "task", "artifacts"],
  "{stepId: 'a', agentRef: 'lead_agent', task: 'What to do'}", false);
const PAUSE = operation("pause", ["stepId"], "{stepId: 'a'}", true);
const CHECKPOINT = operation("checkpoint", ["stepId", "sourceStepId", "artifactVersion"],
  "{stepId: 'a', sourceStepId: 'b', artifactVersion: result.artifactVersion}", true);
const CAPTURE = operation("capture", ["stepId", "sourceStepId", "path"],
  "{stepId: 'a', sourceStepId: 'b', path: 'report.md'}", false);
const READ = operation("read", ["artifactVersion", "offset"],
  "{artifactVersion: capture.artifactVersion, offset: 0}", false);

const api = {
  __proto__: null,
  agent: (options, place) => issue("agent", options, place, AGENT, (given, label) => {
    const agentRef = string("agent", "agentRef", given.agentRef, 256);
    const task = encode(given.task, "The task of " + label);
    const { artifacts } = given;
    return ',"agent_ref":' + agentRef + ',"task":' + task +
      (artifacts === undefined ? "" : ',"artifacts":' + artifactList(artifacts));
  }),
  pause: (options, place) => issue("pause", options, place, PAUSE, () => ""),
  humanCheckpoint: (options, place) => issue("humanCheckpoint", options, place, CHECKPOINT, (given) =>
    ',"source_step_id":' + quote(stepId("humanCheckpoint", "sourceStepId", given.sourceStepId)) +
    ',"artifact_version":' + string("humanCheckpoint", "artifactVersion", given.artifactVersion, 256)),
  captureArtifact: (options, place) => issue("captureArtifact", options, place, CAPTURE, (given) =>
    ',"source_step_id":' + quote(stepId("captureArtifact", "sourceStepId", given.sourceStepId)) +
    ',"path":' + string("captureArtifact", "path", given.path, 1024)),
  readArtifact: (options, place) => issue("readArtifact", options, place, READ, (given) => {
    const version = string("readArtifact", "artifactVersion", given.artifactVersion, 256);
    let { offset } = given;
    if (offset === undefined) offset = 0;
    if (typeof offset !== "number" || !(offset >= 0 && offset < 9007199254740992) || offset % 1 !== 0) {
      throw invalid("readArtifact() needs offset as a whole number of bytes, from 0.");
    }
    return ',"artifact_version":' + version + ',"offset":' + (offset + 0);
  }),
  parallel(thunks, place) {
    const t = track("parallel()", place);
    const { promise } = t;
    try {
      gather(t, thunks);
    } catch (error) {
      refused(t, error);
    }
    return promise;
  },
  log(message, place) {
    try {
      const json = encode(message, "The message of log()");
      if (ended) throw refuse("finished", "log() was called after the script had ended.");
      const call = '{"op":"log","message":' + (typeof message === "string" ? json : quote(json)) + "}";
      admit(call);
      outPlaces[queued] = place;
      outbox[queued] = call;
      queued++;
    } catch (error) {
      if (recordOf(error) !== null) apply(weakSet, places, [error, place]);
      throw error;
    }
  },
};

// Every thunk is called, in order; the promise settles when all have, in order or with the first rejection in
// that order.
function gather(t, thunks) {
  if (!isArray(thunks)) throw invalid("parallel() takes a list of functions, not " + shown(thunks) + ".");
  const { length } = thunks;
  const calls = create(null);
  for (let i = 0; i < length; i++) {
    const thunk = thunks[i];
    if (typeof thunk !== "function") {
      throw invalid("parallel() takes functions, and entry " + i + " is " + shown(thunk) +
        ". Write () => agent({…}) instead of agent({…}).");
    }
    calls[i] = thunk;
  }
  const results = create(null);
  let left = length;
  let failed = length;
  let failure;
  const done = () => {
    if (failed < length) return settle(t, false, failure);
    const list = [];
    for (let i = 0; i < length; i++) {
      defineProperty(list, i, {
        __proto__: null, value: results[i], writable: true, enumerable: true, configurable: true,
      });
    }
    return settle(t, true, list);
  };
  const one = async (i) => {
    try {
      const thunk = calls[i]; // called as a plain function: `this` must not reach the bridge
      results[i] = await thunk();
    } catch (error) {
      if (i < failed) {
        failed = i;
        failure = error;
      }
    }
    if (--left === 0) done();
  };
  if (length === 0) done();
  for (let i = 0; i < length; i++) one(i);
}

// Reading a function of the API yields a fresh one that remembers where it was read.
for (const name of ownKeys(api)) {
  const run = api[name];
  defineProperty(realm, name, {
    __proto__: null, enumerable: true, configurable: false, set: undefined,
    get() {
      const read = here();
      return freeze({ [name](argument) { return run(argument, read + "," + here()); } }[name]);
    },
  });
}
defineProperty(realm, "queueMicrotask", {
  __proto__: null, writable: true, enumerable: false, configurable: true,
  value: {
    queueMicrotask(callback) {
      if (typeof callback !== "function") throw new TypeFault("queueMicrotask() takes a function");
      enqueue(() => {
        try {
          callback();
        } catch (error) {
          finish(false, error);
        }
      });
    },
  }.queueMicrotask,
});
