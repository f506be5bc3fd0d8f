// Two batches with a pause between them: the second one starts when somebody says so, hours later if need be,
// and also when the program was closed in between.
const { batches = [['soap', 'balm'], ['cream']] } = args;
const [first = [], second = []] = batches;

const look = name => agent({ stepId: `look-${name}`, agentRef: 'lead_agent', task: { ask: 'One sentence on this product.', name } });

const before = await parallel(first.map(name => () => look(name)));
log(`${before.length} looked at; the rest waits`);

await pause({ stepId: 'before-the-rest' });

const after = await parallel(second.map(name => () => look(name)));
return { looked: [...before, ...after].map(step => step.output) };
