/*
 * The C side of sql::parse: PostgreSQL's raw parser behind its error barrier.
 *
 * libpg_query's own entry, pg_query_raw_parse, redirects the process's standard error through a
 * pipe around every call: eight system calls, and two threads at once can leave standard error
 * pointing at a closed pipe for ever. So the parser proper is called here, with the same barrier
 * (PG_TRY) written out. Everything it touches is thread-local in libpg_query's build.
 *
 * Must hold on entry: pg_query_init() was called on this thread; the current memory context is
 * one that the caller deletes afterwards. No frame of Rust may lie between sigsetjmp and
 * siglongjmp: there is none, this function calls C only.
 */
#include <setjmp.h>
#include <stddef.h>

extern __thread sigjmp_buf *PG_exception_stack;
extern __thread void *error_context_stack;
extern __thread void *CurrentMemoryContext;

extern void *raw_parser(const char *text, int mode);
extern void *CopyErrorData(void);
extern void FlushErrorState(void);

/* Gives the list of RawStmt in *tree (NULL when empty), or an ErrorData in *error. */
void
atoll_raw_parse(const char *text, void **tree, void **error)
{
	sigjmp_buf *outer_exception_stack = PG_exception_stack;
	void	   *outer_context_stack = error_context_stack;
	void	   *context = CurrentMemoryContext;
	sigjmp_buf	here;

	*tree = NULL;
	*error = NULL;
	if (sigsetjmp(here, 0) == 0)
	{
		PG_exception_stack = &here;
		*tree = raw_parser(text, 0 /* RAW_PARSE_DEFAULT */ );
		PG_exception_stack = outer_exception_stack;
		error_context_stack = outer_context_stack;
	}
	else
	{
		PG_exception_stack = outer_exception_stack;
		error_context_stack = outer_context_stack;
		CurrentMemoryContext = context;
		*error = CopyErrorData();
		FlushErrorState();
	}
}
