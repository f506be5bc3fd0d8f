// One async function body: it calls Agents, and what it returns is the result of the run.
const hello = await agent({ stepId: 'hello', agentRef: 'lead_agent', task: { greet: args.name ?? 'world' } });
log('The first Agent has answered');
const reply = await agent({ stepId: 'reply', agentRef: 'lead_agent', task: { to: hello.output } });
return { hello: hello.output, reply: reply.output };
