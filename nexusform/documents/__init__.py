"""Foreign documents as text with places: what every reader of them needs."""

# What other rooms may use of this one.
DOOR = {
    "shapes": "Holds list_at mapping_at mappings_at text_at texts_at value_at",
    "text_places": "TextPlace",
    "times": "parse_duration parse_time time_text",
    "yaml_text": "ELISION INVALID Node Notes problem_at read_yaml whole_number YamlDocument YamlStream",
}
