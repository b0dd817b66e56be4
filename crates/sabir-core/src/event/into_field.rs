//! Argument conversion for the setters of event kinds.

use std::borrow::Cow;

use super::{
    Accounting, Cause, Change, ChangeSource, CostParts, Detection, Outcome, Text, Timeout, ToolKind, ToolStatus, UsageScope,
};
use crate::json::Str;

/// A value that a setter accepts for a field of type `T`: an optional field takes a value or an [`Option`], and a text
/// field takes any string type.
pub trait IntoField<T> {
    /// Converts the value.
    fn into_field(self) -> T;
}

macro_rules! text_fields {
    ($Field:ty: $($Type:ty),*) => {
        $(
            impl<'a> IntoField<$Field> for $Type {
                fn into_field(self) -> $Field {
                    self.into()
                }
            }

            impl<'a> IntoField<Option<$Field>> for $Type {
                fn into_field(self) -> Option<$Field> {
                    Some(self.into())
                }
            }
        )*

        impl<'a, T: Into<$Field>> IntoField<Option<$Field>> for Option<T> {
            fn into_field(self) -> Option<$Field> {
                self.map(Into::into)
            }
        }
    };
}

text_fields!(Cow<'a, str>: &'a str, &'a String, String, Cow<'a, str>, Str<'a>);
text_fields!(Text<'a>: &'a str, String, Cow<'a, str>, Str<'a>, Text<'a>);

macro_rules! plain_fields {
    ($([$($T:ident)?] $Type:ty),* $(,)?) => {$(
        impl$(<$T>)? IntoField<Self> for $Type {
            fn into_field(self) -> Self {
                self
            }
        }

        impl$(<$T>)? IntoField<Option<Self>> for $Type {
            fn into_field(self) -> Option<Self> {
                Some(self)
            }
        }

        impl$(<$T>)? IntoField<Self> for Option<$Type> {
            fn into_field(self) -> Self {
                self
            }
        }
    )*};
}

plain_fields! {
    [] bool, [] i32, [] u32, [] u64, [] f64, [] Accounting, [] CostParts, [] ToolKind, [] ToolStatus, [] Change, [] ChangeSource,
    [] UsageScope, [] Outcome, [] Cause, [] Timeout, [] Detection, [T] Vec<T>,
}
