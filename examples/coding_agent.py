"""A coding agent's session: the rules of the project first, then what happens, then what was decided.

python examples/coding_agent.py
"""

import asyncio

from tulving import open_memory

AGENT = "coder"


async def main() -> None:
    async with open_memory("project.db", embedder="hashing") as memory:
        project = memory.bind(project="booking")
        await project.store_rule("Run the tests before deploying the booking service", tags=["deploy"])
        await project.store_fact("booking service", "database", "PostgreSQL 17, backed up every night")

        async with project.session(butler=AGENT) as work:
            await work.store_episode("The deployment failed: the migration took a lock", butler=AGENT, importance=7)
            await work.store_episode(
                "Migrations run before the roll-out, not during it", butler=AGENT, type="decision", importance=9
            )

        prompt = await project.context("deploy the booking service: does a migration lock it?", butler=AGENT)
        print(prompt)
        [rule] = (await project.recall("deploy", types=["rule"], limit=1)).hits
        marked = await project.mark_helpful(rule.item.id)
        print(f"{marked.content}: helped {marked.success_count} of {marked.applied_count} times")


asyncio.run(main())
