# What an application does with ActiveRecord; the port is the first argument.
require "active_record"

ActiveRecord::Base.establish_connection(adapter: "postgresql", host: "127.0.0.1", port: ARGV[0], username: ARGV[1] || "ann", database: "weir")
ActiveRecord::Migration.verbose = false
ActiveRecord::Base.logger = Logger.new($stdout) if ENV["LOG"]

def same(seen, expected)
  raise "#{seen.inspect}, and not #{expected.inspect}" unless seen == expected
end

class CreatePeople < ActiveRecord::Migration[6.1]
  def change
    create_table :teams do |t|
      t.string :name, null: false, limit: 40
      t.index :name, unique: true
    end
    create_table :people do |t|
      t.text :email, null: false, index: { unique: true }
      t.references :team, foreign_key: { on_delete: :cascade }
      t.string :tags, array: true, default: []
      t.jsonb :about
      t.decimal :balance, precision: 10, scale: 2, default: 0
      t.interval :waits
      t.timestamps
    end
    add_column :people, :motto, :text
  end
end

class Team < ActiveRecord::Base
  has_many :people
end

class Person < ActiveRecord::Base
  belongs_to :team
end

CreatePeople.migrate(:up)
team = Team.create!(name: "one")
ann = team.people.create!(email: "a@x", tags: ["x", "y z"], about: { "a" => [1] }, waits: 1.day + 2.hours)
Person.insert_all!([{ email: "b@x", balance: 7.5, team_id: team.id, created_at: Time.now, updated_at: Time.now }])
found = Person.includes(:team).find_by!(email: "a@x")
same([found.id, found.tags, found.about, found.balance, found.team.name], [ann.id, ["x", "y z"], { "a" => [1] }, 0, "one"])
same(found.waits, 1.day + 2.hours)
same(Person.where("balance > ?", 1).pluck(:email), ["b@x"])
found.update!(motto: "it's ü", waits: -1.month)
same(Person.where(email: "a@x").pick(:motto, :waits), ["it's ü", -1.month])
begin
  Person.create!(email: "a@x", team: team)
  raise "it is there twice"
rescue ActiveRecord::RecordNotUnique
end
Person.transaction do
  Person.delete_all
  raise ActiveRecord::Rollback
end
same(Person.count, 2)
base = ActiveRecord::Base.connection
same(base.tables.sort, ["people", "teams"])
same(base.primary_key("people"), "id")
same(base.indexes("people").map { |one| [one.name, one.columns, one.unique] }.sort,
     [["index_people_on_email", ["email"], true], ["index_people_on_team_id", ["team_id"], false]])
same(base.foreign_keys("people").map { |one| [one.to_table, one.column, one.on_delete] }, [["teams", "team_id", :cascade]])
same(base.columns("people").map { |one| [one.name, one.sql_type, one.null, one.default] },
     [["id", "bigint", false, nil], ["email", "text", false, nil], ["team_id", "bigint", true, nil], ["tags", "character varying", true, "{}"],
      ["about", "jsonb", true, nil], ["balance", "numeric(10,2)", true, "0.0"], ["waits", "interval", true, nil],
      ["created_at", "timestamp(6) without time zone", false, nil], ["updated_at", "timestamp(6) without time zone", false, nil],
      ["motto", "text", true, nil]])
team.destroy!
same(Person.count, 0)
CreatePeople.migrate(:down)
puts "all is well"
