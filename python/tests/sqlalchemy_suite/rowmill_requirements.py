"""The abilities of Rowmill as SQLAlchemy's suite asks for them. All others are as the suite expects them."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

#: Abilities that the suite does not expect of every database.
HAS = """
    array_type autocommit autoincrement_without_sequence bound_limit_offset check_constraint_reflection
    comment_reflection comment_reflection_full_unicode create_or_replace_view create_table_as cross_schema_fk_reflection
    ctes ctes_on_dml ctes_with_values ctes_with_update_delete datetime_interval datetime_literals datetime_timezone
    delete_returning duplicate_names_in_cursor_description except_ fetch_expression fetch_first fetch_no_order_by
    fetch_offset_with_options fetch_ties foreign_key_constraint_option_reflection_ondelete
    foreign_key_constraint_option_reflection_onupdate get_isolation_level_values
    identity_columns identity_columns_standard implicit_default_schema index_ddl_if_exists
    inline_check_constraint_reflection insert_executemany_returning insert_returning insertmanyvalues intersect
    isolation_level json_array_indexes json_type named_constraints nullsordering order_by_label_with_expression
    parens_in_union_contained_select_w_limit_offset parens_in_union_contained_select_wo_limit_offset
    precision_generic_float_type precision_numerics_many_significant_digits queue_pool recursive_fk_cascade
    regexp_match regexp_replace savepoints schemas sequences sequences_optional
    supports_bitwise_and supports_bitwise_not supports_bitwise_or supports_bitwise_shift supports_bitwise_xor
    supports_distinct_on supports_is_distinct_from table_ddl_if_exists table_value_constructor
    unique_constraints_reflect_as_index unique_index_reflect_as_unique_constraints reflect_table_options
    temporary_tables time_microseconds tuple_in tuple_in_w_empty
    unique_constraint_reflection update_from delete_from update_returning uuid_data_type views window_functions
    window_range window_range_numeric on_update_cascade self_referential_foreign_keys
    infinity_floats expressions_against_unbounded_text
""".split()

#: Abilities that it lacks.
LACKS = """
    two_phase_transactions computed_columns deferrable_fks fetch_percent server_side_cursors
    implements_get_lastrowid time_timezone constraint_comment_reflection
    reflects_pk_names temp_table_names temp_table_reflection
""".split()


class Requirements(SuiteRequirements):
    def get_isolation_levels(self, config):
        levels = ["AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
        return {"default": "REPEATABLE READ", "supported": levels}


for _name in HAS:
    setattr(Requirements, _name, property(lambda self: exclusions.open()))
for _name in LACKS:
    setattr(Requirements, _name, property(lambda self: exclusions.closed()))
