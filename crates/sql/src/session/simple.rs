//! The simple protocol: a text of any number of statements.
//!
//! Invariants: nothing runs if the text does not parse; without transaction commands all
//! statements are one transaction. On an error the rest of the text is skipped.

use super::cache::{CachedStatement, Template};
use super::client::{Announce, Client};
use super::execute::{Answer, Sending};
use super::{Session, literals};
use crate::error::SqlResult;
use crate::parse::{self, Parsed};
use crate::types::{Datum, Type, TypeOid, text as text_form};
use atoll_kernel::api::Context;
use std::rc::Rc;

const SEND: Sending<'static> =
    Sending { announce: Announce::Yes, formats: &[], rows_max: 0, answer: Answer::Send };

impl Session {
    /// Query: any number of statements, in one implicit transaction unless they say otherwise.
    /// On an error the rest of the text is not run.
    pub fn simple_query(
        &mut self,
        context: &Context,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        self.portals.remove("");
        let result = self.simple(context, text, client);
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                self.failed(context);
                self.report_settings(client);
                Err(error)
            }
        }
    }

    fn simple(&mut self, context: &Context, text: &str, client: &mut dyn Client) -> SqlResult<()> {
        if is_blank(text) {
            client.empty_query();
            return Ok(());
        }
        if self.run_template(context, text, client)? {
            return Ok(());
        }
        let parsed = context.on_thread_stack(|| parse::parse(text))?;
        if parsed.is_empty() {
            client.empty_query();
            return Ok(());
        }
        let several = parsed.len() > 1;
        for (number, parsed) in parsed.into_iter().enumerate() {
            let Parsed { statement, is_transaction_exit, .. } = parsed;
            if number > 0 {
                self.breathe(context)?;
            }
            if !is_transaction_exit {
                self.check_not_failed()?;
            }
            let statement = statement?;
            let cached = Rc::new(context.on_thread_stack(|| {
                CachedStatement::closed(statement, is_transaction_exit, Vec::new())
            }));
            let done = self
                .run_statement(context, &cached, &[], SEND, several, client)
                .map_err(|error| parse::in_characters(error, text))?;
            // The last statement's answer comes after the commit, so that it says the truth.
            if !several {
                self.end_implicit(context)?;
            }
            client.complete(&done.tag);
        }
        self.end_implicit(context)?;
        self.report_settings(client);
        Ok(())
    }

    /// Runs a text that differs from an earlier one in literals only; false if it is none.
    fn run_template(
        &mut self,
        context: &Context,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<bool> {
        let Some(normalised) = literals::normalise(text) else { return Ok(false) };
        if normalised.literals.is_empty() {
            return self.run_plain_template(context, text, &normalised, client);
        }
        let mut values = Vec::new();
        let local = self.local.clone();
        let mut fits = local.cache.template(&normalised.text, |template| {
            literals::fit(&template.places, &normalised.literals, &mut Vec::new())
        });
        if fits.is_none() {
            fits = self.make_template(context, text, &normalised)?;
        }
        let Some(template) = fits else { return Ok(false) };
        literals::fit(&template.places, &normalised.literals, &mut values);
        self.check_not_failed()?;
        let Ok(entry) = self.plan(context, &template.cached) else { return Ok(false) };
        let declared = &template.cached.declared;
        for ((value, ty), declared) in
            values.iter_mut().zip(&entry.planned.parameters).zip(declared)
        {
            if *declared != TypeOid::UNKNOWN {
                continue;
            }
            let Datum::Text(literal) = &*value else { continue };
            match text_form::input(Type::new(*ty), literal, &*self.context) {
                Ok(read) => *value = read,
                // The parser's way tells of the wrong literal with its position.
                Err(_) => return Ok(false),
            }
        }
        let done = self.run_statement(context, &template.cached, &values, SEND, false, client)?;
        self.end_implicit(context)?;
        client.complete(&done.tag);
        self.report_settings(client);
        Ok(true)
    }

    /// Texts without literals need no parser the second time.
    fn run_plain_template(
        &mut self,
        context: &Context,
        text: &str,
        normalised: &literals::Normalised,
        client: &mut dyn Client,
    ) -> SqlResult<bool> {
        // A cursor's text is shown in pg_cursors as it came: it has no template.
        let text_start = text.trim_start().as_bytes();
        if text_start.get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"declare")) {
            return Ok(false);
        }
        let local = self.local.clone();
        let template = match local.cache.template(&normalised.text, |_| true) {
            Some(template) => template,
            None => {
                let mut parsed = context.on_thread_stack(|| parse::parse(text))?;
                if parsed.len() != 1 {
                    return Ok(false);
                }
                let Some(Parsed { statement: Ok(statement), is_transaction_exit, .. }) =
                    parsed.pop()
                else {
                    return Ok(false);
                };
                let cached = context.on_thread_stack(|| {
                    CachedStatement::closed(statement, is_transaction_exit, Vec::new())
                });
                let template = Rc::new(Template { cached: Rc::new(cached), places: Vec::new() });
                local.cache.put_template(&normalised.text, template.clone());
                template
            }
        };
        let done = self
            .run_statement(context, &template.cached, &[], SEND, false, client)
            .map_err(|error| parse::in_characters(error, text))?;
        self.end_implicit(context)?;
        client.complete(&done.tag);
        self.report_settings(client);
        Ok(true)
    }

    fn make_template(
        &mut self,
        context: &Context,
        text: &str,
        normalised: &literals::Normalised,
    ) -> SqlResult<Option<Rc<Template>>> {
        let literals = &normalised.literals;
        let made = context.on_thread_stack(|| -> SqlResult<_> {
            let mut parsed = parse::parse(text)?;
            if parsed.len() != 1 {
                return Ok(None);
            }
            let Some(Parsed { statement: Ok(statement), .. }) = parsed.pop() else {
                return Ok(None);
            };
            Ok(literals::template(text, &statement, literals))
        })?;
        let Some((statement, declared, places)) = made else { return Ok(None) };
        let cached = Rc::new(CachedStatement::closed(statement, false, declared));
        let template = Rc::new(Template { cached, places });
        self.local.cache.put_template(&normalised.text, template.clone());
        Ok(Some(template))
    }
}

/// Whether a text has nothing but blanks and semicolons, as lib/pq's pings, one before each transaction of a pool's
/// connection: no parser is needed to see that.
fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte == b';' || byte.is_ascii_whitespace())
}
